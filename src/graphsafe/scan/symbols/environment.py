"""Objects that stand for one environment variable: `DEBUG = EnvBool(default=False)`, read by `DEBUG.get()`."""

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


class Variables:
    """Tells which classes of a project make such objects."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._positions: dict[str, int | None] = {}
        """Class -> the position of the default among its constructor's parameters, or None if its objects read no
        variable."""

    def made(self, cls: ClassValue, arguments: Arguments) -> Number | None:
        """Return the value of an instance with these arguments if its variable is not set, or None if its class reads
        no variable."""
        if cls.ref not in self._positions:
            self._positions[cls.ref] = self._default_position(cls.ref)
        position = self._positions[cls.ref]
        if position is None:
            return None
        default = arguments.get(position, _DEFAULT)
        return (
            replace(default, overridable_by="environment")
            if type(default) is Number
            else Number(overridable_by="environment")
        )

    def _default_position(self, ref: str) -> int | None:
        node = self._project.method_node(ref, "__init__")
        if node is None or not any(self._reads(ref, name) for name in _READERS):
            return None
        names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
        return names.index(_DEFAULT) - 1 if _DEFAULT in names else None

    def _reads(self, ref: str, name: str) -> bool:
        node = self._project.method_node(ref, name)
        return node is not None and any(
            isinstance(inner, (ast.Name, ast.Attribute)) and dotted(inner) in _SOURCES for inner in ast.walk(node)
        )
