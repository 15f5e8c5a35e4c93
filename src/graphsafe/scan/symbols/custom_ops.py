"""Operators that a project registers under a name (`torch.ops.engine.attention`), and the functions that they run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from graphsafe.scan.symbols.project import Project, ref_of
from graphsafe.scan.symbols.project_files import Files

_DECORATED = re.compile(rb"""custom_op\(\s*["'](?:\w+::)?(\w+)["'].{0,300}?\bdef\s+(\w+)""", re.S)
_REGISTERED = re.compile(rb"""\bop_name\s*=\s*["'](\w+)["']\s*,\s*op_func\s*=\s*(\w+)""")
_IMPLEMENTED = re.compile(rb"""\.impl\(\s*["'](?:\w+::)?(\w+)["']\s*,\s*(\w+)""")


def function_behind(project: Project, name: str) -> str | None:
    """Return the function behind `torch.ops.NAMESPACE.NAME` (an overload may follow), by a text search of the files."""
    parts = name.split(".")
    if len(parts) < 4:
        return None
    path, function = _functions_by_operator(project.files).get(parts[3], ("", ""))
    file = project.files.index(path) if path else None
    return ref_of(project.resolve(file, function), "function") if file is not None else None


def _functions_by_operator(files: Files) -> Mapping[str, tuple[str, str]]:
    """Map the name of each operator to the path and name of its first registered function."""

    def read() -> Mapping[str, tuple[str, str]]:
        table: dict[str, tuple[str, str]] = {}
        for path in files.names:
            for operator, function in operators_in(files.data(path) or b""):
                table.setdefault(operator, (path, function))
        return table

    return files.table("operators", read)


def operators_in(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the operators that a file registers, each with the name of its function."""
    for word, pattern in ((b"custom_op(", _DECORATED), (b"op_name", _REGISTERED), (b".impl(", _IMPLEMENTED)):
        for operator, function in pattern.findall(data) if word in data else ():
            yield operator.decode(), function.decode()
