"""Operators that a project registers under a name (`torch.ops.engine.attention`), and the functions that they run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphsafe.scan.symbols.project import Project, ref_of

_DECORATED = re.compile(rb"""custom_op\(\s*["'](?:\w+::)?(\w+)["'].{0,300}?\bdef\s+(\w+)""", re.S)
_REGISTERED = re.compile(rb"""\bop_name\s*=\s*["'](\w+)["']\s*,\s*op_func\s*=\s*(\w+)""")
_IMPLEMENTED = re.compile(rb"""\.impl\(\s*["'](?:\w+::)?(\w+)["']\s*,\s*(\w+)""")


def function_behind(project: Project, name: str) -> str | None:
    """Return the function that implements `torch.ops.NAMESPACE.NAME` (an overload may follow), or None. A text search
    of the project's files finds it."""
    parts = name.split(".")
    if len(parts) < 4:
        return None
    registered = project.files.found_by("operators", operators_in).get(parts[3])
    if registered is None:
        return None
    path, function = registered[0]
    return ref_of(project.meaning(project.files.index(path), function), "function")


def operators_in(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the operators that a file registers, each with the name of its function."""
    for word, pattern in ((b"custom_op(", _DECORATED), (b"op_name", _REGISTERED), (b".impl(", _IMPLEMENTED)):
        for operator, function in pattern.findall(data) if word in data else ():
            yield operator.decode(), function.decode()
