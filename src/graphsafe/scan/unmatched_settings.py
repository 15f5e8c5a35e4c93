"""Finds patterns of the configuration that match nothing in the project: they are mistyped, or the code has moved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from graphsafe.config import Config, FunctionPattern
from graphsafe.report.model import Limit
from graphsafe.scan.roots.hot_roots import HotnessRules
from graphsafe.scan.symbols.project_files import Files

KIND = "unmatched-setting"


def unmatched_settings(config: Config, files: Files) -> Iterator[Limit]:
    """Yield a limit for each pattern of `hot-paths`, `cold-paths` and `per-file-ignores` that matches no file."""
    shown = HotnessRules(config)
    relative = {path: shown.relative(path) for path in files.names}
    for key, patterns in (("hot-paths", config.hot_paths), ("cold-paths", config.cold_paths)):
        for pattern in patterns:
            if not any(_may_match(pattern, path, relative[path], files) for path in relative):
                text = pattern.where if pattern.function == "*" else f"{pattern.where}:{pattern.function}"
                yield Limit(KIND, f"{key} {text}", "no function of the project has such a name")
    for path_pattern in config.per_file_ignores:
        if not any(fnmatchcase(name, path_pattern) for name in relative.values()):
            yield Limit(KIND, f"per-file-ignores {path_pattern}", "no file of the project has such a path")


def _may_match(pattern: FunctionPattern, path: str, relative: str, files: Files) -> bool:
    """Return whether a file has the path of the pattern and its text defines a function with the pattern's last
    name."""
    module, _ = files.names[path]
    last = pattern.function.rpartition(".")[2]
    if not pattern.matches(relative, module, pattern.function):
        return False
    if not last.isidentifier():
        return True
    return re.search(rb"\bdef[ \t\\]+%s\b" % last.encode(), files.data(path) or b"") is not None
