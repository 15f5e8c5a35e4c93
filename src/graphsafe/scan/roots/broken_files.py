"""Files that cannot be imported, because they import a missing module of their own package. Such files are usually old
copies.
"""

from __future__ import annotations

import re
from pathlib import Path

from graphsafe.scan.symbols.project_files import Files

_FROM = re.compile(rb"from (?<![^\n]from )(\.*)(\w[\w.]*) import (?:\([^()]*?|.*?)\b[A-Z]\w*[a-z]")
"""Matches imports of classes. Imports of functions are left out, because a build may make modules with functions from
other languages.

A search that begins with fixed characters, and looks back from there to the start of the line, is five times as fast.
"""
_BUILT = re.compile(r"_|version$|\w*_(c|pb2|pb2_grpc|cuda|ext|lib|cpp|kernels?|ops)$")
"Matches names of modules that a build makes."


def missing_import(path: str, files: Files, data: bytes) -> str | None:
    """Return a module that a file imports unconditionally although the file's package lacks it. Return None if there is
    none."""
    module, is_package = files.names[path]
    parts = module.split(".")
    for dots, name in _FROM.findall(data):
        wanted = name.decode().split(".")
        if dots:
            wanted = [*parts[: len(parts) - len(dots) + is_package], *wanted]
        if wanted[0] == parts[0] and len(wanted) > 1 and len(parts) > 1 and _is_missing(wanted, files, path):
            return ".".join(wanted)
    return None


def _is_missing(wanted: list[str], files: Files, path: str) -> bool:
    """Return whether a package of the project has no such module, not even on disk."""
    *package, name = wanted
    holders = [Path(one).parent for one in files.modules.get(".".join(package), ()) if one.endswith("__init__.py")]
    if _BUILT.match(name) or len(holders) != 1 or ".".join(wanted) in files.modules:
        return False
    root = Path(path).parents[len(files.names[path][0].split(".")) - 1 - files.names[path][1]]
    return holders[0] == root.joinpath(*package) and not any(holders[0].glob(f"{name}*"))
