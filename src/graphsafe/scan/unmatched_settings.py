"""Finds patterns and targets of the configuration that match nothing in the project, and finds mark comments that
belong to no function. Usually a name was mistyped, or code has moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from graphsafe.config import Config, FunctionPattern, Target
from graphsafe.report.model import Limit
from graphsafe.scan.roots.hot_roots import HotnessRules
from graphsafe.scan.symbols.index import MARK, meant_mark
from graphsafe.scan.symbols.project_files import Files

KIND = "unmatched-setting"
_STRAY = "it marks no function: a mark belongs on or above the `def` line of a function that is in no other function"


def unmatched_settings(config: Config, files: Files) -> Iterator[Limit]:
    """Yield a limit for each pattern of `hot-paths`, `cold-paths` and `per-file-ignores` that matches nothing. Also
    yield a limit for each target whose factory is not in the project's files."""
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
    for target in config.targets.values():
        why = _missing(target, config, files)
        if why is not None:
            yield Limit(KIND, f"targets.{target.name} {target.factory}", f"{why}, so its step is not read")


def stray_marks(files: Files, path: str, shown: str) -> Iterator[Limit]:
    """Yield a limit for each comment of a file that looks like a mark but marks no function."""
    file = files.indexes.get(path)
    for line in file.stray_marks if file is not None else ():
        text = files.source(path).lines[line - 1]
        meant = meant_mark(text)
        why = _STRAY if meant is None else f'no such mark (did you mean "{meant}"?)'
        mark = MARK.search(text)
        yield Limit(KIND, f"{shown}:{line} {mark[0] if mark is not None else text.strip()}", why)


def _missing(target: Target, config: Config, files: Files) -> str | None:
    """Return why a target's factory is not found, or None if the factory's name occurs somewhere in its file."""
    where, _, factory = target.factory.rpartition(":")
    if where.endswith(".py"):
        path = str((config.root / where).resolve())
        if path not in files.names:
            is_there = Path(path).is_file()
            return "its file is ignored or excluded" if is_there else "no file of the project has such a path"
        found: Sequence[str] = (path,)
    else:
        found = files.modules.get(where, ())
        if not found:
            return "no module of the project has such a name"
    last = factory.rpartition(".")[2]
    named = re.compile(rb"\b%s\b|\bimport[ \t]*\*" % re.escape(last).encode())
    return None if any(named.search(files.data(path) or b"") for path in found) else f"it has no function {last}"


def _may_match(pattern: FunctionPattern, path: str, relative: str, files: Files) -> bool:
    """Return whether a file has the pattern's path and defines a function with the last part of its name."""
    module, _ = files.names[path]
    last = pattern.function.rpartition(".")[2]
    if not pattern.matches(relative, module, pattern.function):
        return False
    name = last.encode() if last.isidentifier() else rb"\w+"
    return re.search(rb"\bdef[ \t\\]+%s\b" % name, files.data(path) or b"") is not None
