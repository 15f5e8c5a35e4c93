"""Objects that stand for one environment variable: `DEBUG = EnvBool(default=False)`, which `DEBUG.get()` reads."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import ClassValue, Number
from graphsafe.scan.symbols.index import dotted
from graphsafe.scan.symbols.project import Project

_READERS = ("get", "__get__")
_SOURCES = frozenset(("os.environ", "os.getenv", "environ", "getenv"))
_DEFAULT = "default"


def variable_made(project: Project, cls: ClassValue, arguments: Arguments) -> Number | None:
    """Return the value of an instance whose variable is not set. Return None if the instance's class reads no
    environment variable."""
    position = project.files.table(("position of the default", cls.ref), lambda: _default_position(project, cls.ref))
    if position is None:
        return None
    default = arguments.get(position, _DEFAULT)
    return replace(default if type(default) is Number else Number(), overridable_by="environment")


def _default_position(project: Project, ref: str) -> int | None:
    """Return the position of the default among a constructor's parameters, or None if the class reads no environment
    variable."""
    node = project.method_node(ref, "__init__")
    if node is None or not any(_reads(project, ref, name) for name in _READERS):
        return None
    names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
    return names.index(_DEFAULT) - 1 if _DEFAULT in names else None


def _reads(project: Project, ref: str, name: str) -> bool:
    node = project.method_node(ref, name)
    return node is not None and any(
        isinstance(inner, (ast.Name, ast.Attribute)) and dotted(inner) in _SOURCES for inner in ast.walk(node)
    )
