"""Splits statements into parts, so that a break can be a part of a statement. The operands of each operation that
encloses a marked expression get lines of their own, in execution order.

If `scale_of(x)` is marked in `return self.head(x * scale_of(x))`, the statement becomes `part_1 = scale_of(x)`, `part_2
= x * part_1` and `return self.head(part_2)`. If a condition decides whether an expression runs, as in a conditional
expression or a comprehension, the expression stays in the line of that condition.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

from graphsafe.capture.plan.shared.regions import Function
from graphsafe.capture.plan.shared.statements import blocks_of, jumps, within
from graphsafe.capture.shared.classify import span_of
from graphsafe.report.model import Span

_INDENT = "    "
_WORK = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.IfExp, ast.BoolOp)
_TRANSPARENT = (ast.Attribute, ast.Tuple, ast.List, ast.Starred, ast.keyword, ast.Slice)
"Expressions whose parts count as operands of the enclosing expression: in `f((a, b))`, `a` and `b` are operands."
_OPERANDS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Call: ("func", "args", "keywords"),
    ast.Subscript: ("value", "slice"),
    ast.BinOp: ("left", "right"),
    ast.UnaryOp: ("operand",),
    ast.Compare: ("left", "comparators"),
    ast.IfExp: ("test",),
    ast.Attribute: ("value",),
    ast.Tuple: ("elts",),
    ast.List: ("elts",),
    ast.Starred: ("value",),
    ast.keyword: ("value",),
    ast.Slice: ("lower", "upper", "step"),
}
"Class of an expression -> the fields that always run before the expression itself, in the order in which they run."
_ORDERED = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    origin: Span
    "The expression or statement from which the line was made."


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of the lines from `first` to `last` of a file."""

    first: int
    last: int
    lines: tuple[Line, ...]


def holds(outer: Span, inner: Span) -> bool:
    return outer[:2] <= inner[:2] and inner[2:] <= outer[2:]


def expression_at(function: Function, span: Span) -> ast.expr | None:
    """Return the smallest expression of the function that contains the span. For the span of an `if`, `while` or
    `assert` statement, return its condition."""
    held = [node for node in ast.walk(function.node) if isinstance(node, ast.expr) and holds(span_of(node), span)]
    tests = [
        node.test
        for node in ast.walk(function.node)
        if isinstance(node, (ast.If, ast.While, ast.Assert)) and span_of(node) == span
    ]
    return min([*held, *tests], key=lambda node: len_of(span_of(node)), default=None)


def len_of(span: Span) -> tuple[int, int]:
    return span[2] - span[0], span[3] - span[1]


def calls_on(function: Function, line: int) -> Iterator[ast.expr]:
    """Yield the calls in the innermost statement that runs this line, without those in the statement's blocks."""
    region = function.statement_at(line)
    place = None if region is None else function.place(region)
    for statement in () if place is None else place.statements:
        inner = {id(node) for block in blocks_of(statement) for node in within(block)}
        yield from (node for node in within([statement]) if isinstance(node, ast.Call) and id(node) not in inner)


def edits(
    function: Function, marked: Set[ast.expr], lines: Sequence[str], calls: Set[ast.expr] = frozenset()
) -> list[Edit]:
    """Return the edits of the function's file, whose lines are `lines`. Statements that share lines are replaced by one
    edit.

    `calls` are expressions that always get lines of their own. Some are calls that lead to marked expressions in other
    functions, because such a call may return another value in each step. The others are operations whose result is
    tested for truth, because only the test reads the device.
    """
    return list(_Apart(function, marked, lines, calls).of_block(function.node, function.body))


class _Apart:
    def __init__(self, function: Function, marked: Set[ast.expr], lines: Sequence[str], calls: Set[ast.expr]) -> None:
        self._function = function
        self._calls = {id(node) for node in calls}
        self._marked = {id(node) for node in marked} | self._calls
        self._lines = lines
        self._taken = {node.id for node in ast.walk(function.node) if isinstance(node, ast.Name)}
        self._parts: list[tuple[str, ast.expr]] = []
        "The parts of the statement that is being written."

    def of_block(self, owner: ast.stmt, block: Sequence[ast.stmt]) -> Iterator[Edit]:
        groups: list[list[ast.stmt]] = []
        "Groups of statements that share lines."
        for statement in block:
            if groups and (groups[-1][-1].end_lineno or 0) >= statement.lineno:
                groups[-1].append(statement)
            else:
                groups.append([statement])
        for group in groups:
            before = _cut(self._lines[group[0].lineno - 1], 0, group[0].col_offset)
            if before.strip():
                # These statements are on the line of their owner's head. If the head contains a mark, `_of_head` writes
                # them together with the head.
                if not self._has_mark(_head_of(owner)):
                    yield self._beside_head(group, before)
            elif len(group) > 1:
                written = [line for statement in group for line in self._written(statement, before)]
                yield Edit(group[0].lineno, _end(group[-1]), tuple(written))
            else:
                yield from self._of_statement(group[0], before)

    def _beside_head(self, group: Sequence[ast.stmt], before: str) -> Edit:
        indent = before[: len(before) - len(before.lstrip())]
        first = group[0].lineno
        head = Line(before.rstrip(), (first, len(indent), first, len(before.rstrip())))
        body = [line for statement in group for line in self._written(statement, indent + _INDENT)]
        return Edit(first, _end(group[-1]), (head, *body))

    def _of_statement(self, statement: ast.stmt, indent: str) -> Iterator[Edit]:
        blocks = blocks_of(statement)
        if not blocks:
            written = self._written(statement, indent)
            if self._parts:
                yield Edit(statement.lineno, _end(statement), tuple(written))
            return
        head = _head_of(statement)
        # No lines can be inserted before an `elif`.
        is_elif = self._lines[statement.lineno - 1].lstrip().startswith("elif")
        if head is not None and not is_elif and self._has_mark(head):
            yield from self._of_head(statement, head, blocks[0], indent)
        for block in blocks:
            yield from self.of_block(statement, block)

    def _of_head(self, statement: ast.stmt, head: ast.expr, body: Sequence[ast.stmt], indent: str) -> Iterator[Edit]:
        self._parts = []
        residual = self._alone(head)
        if isinstance(statement, ast.If):
            ends = self._function.body[-1] is statement
            leaves = jumps([statement]) or any(isinstance(node, ast.Return) for node in within([statement]))
            if leaves and not ends:
                # The rest of the function is the other branch of this statement, so only the test becomes a break.
                truth = ast.Call(ast.Name("bool", ast.Load()), [residual], [])
                residual = self._hoisted(ast.copy_location(truth, head))
            top: ast.stmt = ast.If(residual, [ast.Pass()], [])
        else:
            assert isinstance(statement, ast.For)
            top = ast.For(statement.target, residual, [ast.Pass()], [])
        if not self._parts:
            return
        text = ast.unparse(ast.fix_missing_locations(top)).partition("\n")[0]
        written = [*self._part_lines(indent), Line(indent + text, (*span_of(statement)[:2], *span_of(head)[2:]))]
        last = body[0].lineno - 1
        if _cut(self._lines[last], 0, body[0].col_offset).strip():
            written += [line for inner in body for line in self._as_it_stands(inner, indent + _INDENT)]
            last = _end(body[-1])
        yield Edit(statement.lineno, last, tuple(written))

    def _has_mark(self, node: ast.AST | None) -> bool:
        return node is not None and any(id(one) in self._marked for one in within([node]))

    def _written(self, statement: ast.stmt, indent: str) -> list[Line]:
        """Return the new lines of a statement that has no blocks."""
        self._parts = []
        field = "test" if isinstance(statement, ast.Assert) else "value"
        value: ast.expr | None = getattr(statement, field, None)
        if (
            value is None
            or not self._has_mark(value)
            or any(isinstance(node, _ORDERED) for node in ast.walk(statement))
        ):
            return self._as_it_stands(statement, indent)
        changed = copy.copy(statement)
        bound = isinstance(statement, ast.Return) or _is_bound(statement)
        setattr(changed, field, self._residual(value) if bound else self._alone(value))
        try:
            text = ast.unparse(ast.fix_missing_locations(changed))
            return [*self._part_lines(indent), Line(indent + text, span_of(statement))]
        except ValueError:  # this f-string cannot be written on one line
            self._parts = []
            return self._as_it_stands(statement, indent)

    def _as_it_stands(self, statement: ast.stmt, indent: str) -> list[Line]:
        first, start, last, end = span_of(statement)
        texts = [self._lines[line - 1] for line in range(first, last + 1)]
        texts[-1] = _cut(texts[-1], 0, end)
        texts[0] = indent + _cut(texts[0], start, None)
        return [Line(text, span_of(statement)) for text in texts]

    def _part_lines(self, indent: str) -> list[Line]:
        return [Line(f"{indent}{name} = {ast.unparse(node)}", span_of(node)) for name, node in self._parts]

    def _hoisted(self, node: ast.expr) -> ast.expr:
        name = next(f"part_{number}" for number in range(1, 10**6) if f"part_{number}" not in self._taken)
        self._taken.add(name)
        self._parts.append((name, node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _alone(self, node: ast.expr) -> ast.expr:
        """Return the expression with names for its operands. If the expression is one of the calls, return the name of
        a new part for it."""
        residual = self._residual(node)
        return self._hoisted(residual) if id(node) in self._calls else residual

    def _residual(self, node: ast.expr) -> ast.expr:
        """Return the expression with the names of parts as its operands, or unchanged if it contains no mark."""
        if not self._has_mark(node):
            return node
        # Most operations whose result is tested for truth read the device themselves, so they stay in the line of the
        # test.
        truth = isinstance(node, ast.IfExp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
        if isinstance(node, ast.Compare) and len(node.comparators) > 1:
            return node
        changed = _with_operands(node, self._alone if truth else self._operand)
        if isinstance(node, ast.BoolOp):
            changed.values = [self._alone(node.values[0]), *node.values[1:]]  # type: ignore[attr-defined]
        return changed

    def _operand(self, node: ast.expr) -> ast.expr:
        if isinstance(node, _TRANSPARENT):
            return _with_operands(node, self._operand)
        if not any(map(_works, within([node]))):
            return node
        residual = self._residual(node)
        return self._hoisted(residual) if isinstance(node, _WORK) or residual is node else residual


def _with_operands(node: ast.expr, change: Callable[[ast.expr], ast.expr]) -> ast.expr:
    """Return a copy of the expression in which `change` has replaced each operand."""
    changed = copy.copy(node)
    for field in _OPERANDS.get(type(node), ()):
        held = getattr(node, field)
        if isinstance(held, list):
            setattr(changed, field, [change(one) for one in held])
        elif held is not None:
            setattr(changed, field, change(held))
    return changed


def _is_bound(statement: ast.stmt) -> bool:
    """Return whether the statement binds its value to a single variable."""
    return isinstance(statement, ast.Assign) and [type(target) for target in statement.targets] == [ast.Name]


def _works(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.operand, ast.Constant)
    return isinstance(node, _WORK) and not (isinstance(node, ast.Call) and ast.unparse(node) == "super()")


def _head_of(statement: ast.stmt) -> ast.expr | None:
    if isinstance(statement, ast.If):
        return statement.test
    return statement.iter if isinstance(statement, ast.For) else None


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _cut(text: str, start: int, end: int | None) -> str:
    """Return a part of a line. Columns are counted in UTF-8 bytes, as in `ast`."""
    return text.encode("utf-8", "surrogatepass")[start:end].decode("utf-8", "surrogatepass")
