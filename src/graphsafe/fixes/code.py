"""The source of a file that a fix edits: its syntax tree, the nodes at a location and the nodes around a node.

The module also defines `Fix`: the edits of one file that repair one finding. `ast` finds the location of an edit,
because `ast` is fast and has positions. libcst rewrites the code there (rewriting.py).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from graphsafe.report.model import Edit, Finding, Location

Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Code:
    """The lines and the syntax tree of one file, with methods that find nodes and make edits."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Parse the lines. Raises SyntaxError, ValueError, RecursionError or MemoryError if `ast` cannot parse them."""
        self.lines = lines
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = ast.parse("\n".join(lines))

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        """Node -> the node around it. Outer nodes come first."""
        found: dict[ast.AST, ast.AST] = {}
        waiting: list[ast.AST] = [self.tree]
        for node in waiting:
            for child in ast.iter_child_nodes(node):
                found[child] = node
                waiting.append(child)
        return found

    @cached_property
    def _by_line(self) -> dict[int, list[ast.expr | ast.stmt]]:
        found: dict[int, list[ast.expr | ast.stmt]] = {}
        for node in self._parents:
            if isinstance(node, (ast.expr, ast.stmt)):
                found.setdefault(node.lineno, []).append(node)
        return found

    def at(self, location: Location) -> list[ast.AST]:
        """Return the nodes whose span is exactly that of a finding, the outermost first."""
        place = (location.line, location.column, location.end_line, location.end_column)
        return [node for node in self._by_line.get(location.line, ()) if self.place(node) == place]

    def calls_at(self, location: Location) -> list[ast.Call]:
        """Return the calls whose span is exactly that of a finding, the outermost first."""
        return [node for node in self.at(location) if isinstance(node, ast.Call)]

    def is_in_string(self, location: Location) -> bool:
        """Return whether a finding is in an expression of an f-string."""
        return any(isinstance(outer, ast.JoinedStr) for node in self.at(location) for outer in self.around(node))

    def place(self, node: ast.expr | ast.stmt) -> tuple[int, int, int, int]:
        """Return the first line and column, the last line, and the column after the end. They count from 1, in code
        points."""
        end_line = node.end_lineno or node.lineno
        return (
            node.lineno,
            self._column(node.lineno, node.col_offset),
            end_line,
            self._column(end_line, node.end_col_offset or 0),
        )

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1]
        return (offset if text.isascii() else len(text.encode("utf-8")[:offset].decode("utf-8", "ignore"))) + 1

    def text(self, node: ast.expr | ast.stmt) -> str:
        line, column, end_line, end_column = self.place(node)
        if line == end_line:
            return self.lines[line - 1][column - 1 : end_column - 1]
        first, *middle, last = self.lines[line - 1 : end_line]
        return "\n".join([first[column - 1 :], *middle, last[: end_column - 1]])

    def replaced(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(*self.place(node), text)

    def with_keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        """Return the edit that passes `name=value` in a call."""
        from graphsafe.fixes import rewriting

        return self.replaced(call, rewriting.call(self.text(call), lambda it: rewriting.with_keyword(it, name, value)))

    def added_below(self, node: ast.stmt, text: str) -> Edit:
        """Return the edit that adds a line below a statement. The statement's last line must contain no other
        statement."""
        line = node.end_lineno or node.lineno
        column = len(self.lines[line - 1]) + 1
        return Edit(line, column, line, column, f"\n{' ' * node.col_offset}{text}")

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, the innermost first."""
        outer = self.parent(node)
        while outer is not None:
            yield outer
            outer = self.parent(outer)

    def function(self, node: ast.AST) -> Definition | None:
        return next((outer for outer in self.around(node) if isinstance(outer, Definition)), None)

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class in whose method a node is, or None."""
        function = self.function(node)
        outer = self.parent(function) if function is not None else None
        return outer if isinstance(outer, ast.ClassDef) else None

    def assigned(self, target: str) -> list[ast.expr | None]:
        """Return the values that the file assigns to a name or attribute, with None for each augmented assignment."""
        found: list[ast.expr | None] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                found += [node.value for each in node.targets if ast.unparse(each) == target]
            elif isinstance(node, ast.AnnAssign) and node.value is not None and ast.unparse(node.target) == target:
                found.append(node.value)
            elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == target:
                found.append(None)
        return found

    def imports(self, name: str) -> bool:
        """Return whether the module contains `import name`."""
        return any(
            isinstance(node, ast.Import) and any(alias.name == name and not alias.asname for alias in node.names)
            for node in self.tree.body
        )


def dotted(node: ast.expr) -> str:
    """Return a dotted name such as `torch.linalg.inv`, or "" if the node is not a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return the argument that a call passes for a parameter, by position or by name. Return None if the call passes no
    such argument, or if `*` or `**` may hide it.
    """
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return None
    if position < len(call.args):
        return call.args[position]
    return next((each.value for each in call.keywords if each.arg == name), None)


def is_literal(node: ast.expr) -> bool:
    """Return whether a node is a literal number: `3`, `-0.5`, `True`, `math.inf`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        node = node.operand
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (bool, int, float))
    return dotted(node) in ("math.inf", "math.pi", "math.nan", "torch.inf", "torch.pi", "torch.nan")


def is_plain(node: ast.expr) -> bool:
    """Return whether a node has no side effect and takes hardly any time.

    Such nodes are names, attributes, numbers, and arithmetic on them.
    """
    if isinstance(node, ast.Call):
        sizes = dotted(node.func) in ("len", "int", "float", "bool", "min", "max") or (
            isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "numel", "dim", "item")
        )
        owner = is_plain(node.func.value) if isinstance(node.func, ast.Attribute) else True
        return sizes and owner and not node.keywords and all(map(is_plain, node.args))
    parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    return isinstance(node, _PLAIN) and all(map(is_plain, parts))


_PLAIN = (ast.Name, ast.Constant, ast.Attribute, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.Subscript)
"Syntax that is plain if all its parts are plain."


@dataclass(frozen=True, slots=True)
class Fix:
    title: str
    "The repair as an imperative: `use torch.full`."
    edits: tuple[Edit, ...]
    risk: str = ""
    """The cases in which the fix changes a result, as a text that can follow "unsafe:". The text is empty for a safe
    fix. After a safe fix, the step always gives the same result on the CPU as before."""


Proposal = Callable[[Code, Finding], Fix | None]
"""A function that returns the fix of a finding, or None if no fix is certainly right."""
