"""Finds the numbers, flags and variables that captured code used, because their values may differ at a replay.

The captured statements are followed into the program's functions that they call, on the branches that ran. A number is
recorded if it is an argument of a tensor operation, the end of a slice, or the number of iterations of a loop. A flag
is recorded if a branch with operations depends on it. A variable is recorded unless its value is only used as an index
or in a string.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FrameType, ModuleType
from typing import Any, Literal

import torch

from graphsafe.report.model import CallSite
from graphsafe.run.child.frozen.origins import PLAIN, Origin, Scope, attribute_or_property, scope_of
from graphsafe.run.child.frozen.variables import Variable
from graphsafe.run.child.generators import draws
from graphsafe.run.child.names import MISSING, elements_of
from graphsafe.run.child.source import captured_statements, is_read, is_seeding

_MOST_NODES = 20_000
"At most this many syntax nodes are followed in one capture."
_MOST = 256
_DEEPEST = 12
_LONGEST = 64
"At most this many iterations of a loop are followed one by one."
_SUMMARIES = frozenset({"len", "sum", "max", "min", "any", "all", "bool", "isinstance", "print", "range"})
"Functions that summarise a list. Passing a list to one of them does not count as a use of the list's single numbers."

Kind = Literal["number", "size", "flag"]


@dataclass(eq=False, slots=True)
class Frozen:
    """A number or a flag that captured code used."""

    text: str
    kind: Kind
    value: Any
    now: Callable[[], Any] | None
    carrier: type | None
    "The class of the object that has the value as an attribute, if the program may pass another object to each call."
    attribute: str
    computed: Callable[[Any], Any] | None
    "Computes the value from the attribute, or None if both are the same."
    place: tuple[str, int, int]
    "The file of the statement, its first line and its last line."
    is_tied: bool | None = None
    "Whether the program had the captured value at the first comparison; None before that."
    is_free: bool = False
    "Whether the program also runs the statement eagerly with other values."

    def differs(self, now: Any) -> bool:
        """Return whether `now` differs from the captured value in a way that padding does not explain."""
        if self.kind == "flag":
            return isinstance(now, PLAIN) and bool(now) is not bool(self.value)
        if type(now) is not type(self.value) or now != now:
            return False
        return bool(now > self.value) if self.kind == "size" else bool(now != self.value)

    @property
    def present(self) -> Any:
        return MISSING if self.now is None else self.now()

    def of(self, carrier: Any) -> Any:
        """Return the value that another object of the carrier's class has."""
        now = attribute_or_property(carrier, self.attribute)
        return now if self.computed is None or now is MISSING else self.computed(now)

    def ran(self, line: int) -> None:
        """Record that a line runs eagerly. If the program's value at that moment differs from the captured value, the
        program runs this value eagerly and needs no graph for it."""
        if not self.is_free and self.place[1] <= line <= self.place[2] and self.differs(self.present):
            self.is_free = True


class Walk:
    """Follows the captured statements of the first frame. The remaining frames are its callers."""

    def __init__(self, frames: Sequence[FrameType] = ()) -> None:
        self.found: list[Frozen] = []
        self.variables: dict[tuple[CodeType, str], Variable] = {}
        "Variables of the frames, if captured code uses their values."
        self.seeded: CallSite | None = None
        self.drawn: CallSite | None = None
        "The first captured line that draws a random number on the host."
        self.stores: dict[str, CallSite] = {}
        "Attribute that captured code assigns -> the first line that assigns it."
        self._left = _MOST_NODES
        self.body = captured_statements(frames[0].f_code.co_filename, frames[0].f_lineno) if frames else ()
        if self.body:
            self.block(self.body, scope_of(frames), 0)

    def block(self, body: Sequence[ast.stmt], scope: Scope, depth: int) -> bool:
        """Follow statements. Return whether one of them leaves the block, as `return` does."""
        return any(self._statement(one, scope, depth) for one in body)

    def _statement(self, node: ast.stmt, scope: Scope, depth: int) -> bool:
        place = scope.path, node.lineno, node.end_lineno or node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return False
        if isinstance(node, ast.If):
            self._visit(node.test, scope, place, depth)
            taken = self._branch(node, [node.body, node.orelse], scope)
            left = [self.block(one, scope, depth) for one in taken]
            return len(taken) == 1 and left[0]
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self._visit(node.iter, scope, place, depth)
            for turn in self._turns(node.target, node.iter, scope, place):
                self.block(node.body, turn, depth)
            return self.block(node.orelse, scope, depth)
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for one in target.elts if isinstance(target, ast.Tuple) else (target,):
                if isinstance(one, ast.Attribute):
                    self.stores.setdefault(one.attr, CallSite(scope.path, node.lineno, None))
        if isinstance(node, ast.AugAssign):
            self._use(node.value, scope, place, "number")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child, scope, depth)
            else:
                self._visit(child, scope, place, depth)
        return isinstance(node, (ast.Return, ast.Raise, ast.Continue, ast.Break))

    def _branch(self, node: ast.If | ast.IfExp, arms: list[list[Any]], scope: Scope) -> list[list[Any]]:
        """Return the branch that ran, or all branches if that is unknown."""
        test = scope.origin(node.test)
        if test.value is MISSING or not isinstance(test.value, PLAIN):
            return arms
        if isinstance(node, ast.IfExp) or any(_works(one) or _fills(one, scope) for arm in arms for one in arm):
            self._add(node.test, test, "flag", (scope.path, node.lineno, node.test.end_lineno or node.lineno))
        return arms[:1] if test.value else arms[1:]

    def _turns(self, target: ast.expr, over: ast.expr, scope: Scope, place: tuple[str, int, int]) -> Iterator[Scope]:
        """Yield a scope for each iteration of a loop, or a single scope if the iterations are unknown."""
        items: Sequence[Any] = ()
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
            for one in over.args:
                self._use(one, scope, place, "size")
            ends = [scope.origin(one).value for one in over.args]
            items = range(*ends) if 0 < len(ends) < 4 and all(type(one) is int for one in ends) else ()
        else:
            value = scope.origin(over).value
            is_list = issubclass(type(value), (torch.nn.ModuleList, torch.nn.Sequential))
            items = tuple(value._modules.values()) if is_list else elements_of(value)
        if isinstance(target, ast.Name) and 0 < len(items) <= _LONGEST:
            yield from (scope.with_name(target.id, Origin.of(one)) for one in items)
        else:
            yield scope

    def _visit(self, node: ast.AST, scope: Scope, place: tuple[str, int, int], depth: int) -> None:
        self._left -= 1
        if self._left < 0 or isinstance(node, (ast.Lambda, ast.JoinedStr)):
            return
        if isinstance(node, ast.IfExp):
            self._visit(node.test, scope, place, depth)
            for (one,) in self._branch(node, [[node.body], [node.orelse]], scope):
                self._visit(one, scope, place, depth)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)) and len(node.generators) == 1:
            only = node.generators[0]
            self._visit(only.iter, scope, place, depth)
            for turn in self._turns(only.target, only.iter, scope, place):
                self._visit(node.elt, turn, place, depth)
        else:
            for part in self._parts(node, scope, place, depth):
                self._visit(part, scope, place, depth)

    def _parts(self, node: ast.AST, scope: Scope, place: tuple[str, int, int], depth: int) -> Iterable[ast.AST]:
        """Record the values that the expression itself uses. Return its parts that may use further values."""
        if isinstance(node, ast.Call):
            return self._call(node, scope, place, depth)
        if isinstance(node, ast.Subscript):
            indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else (node.slice,)
            if not isinstance(scope.origin(node.value).value, (list, tuple, dict)):
                for one in indices:
                    self._use(one, scope, place, "number")
            return [node.value, *(one for one in indices if not is_read(one))]
        if is_read(node):
            self.variables.update(((one.code, one.name), one) for one in scope.origin(node).variables)
        elif isinstance(node, ast.Slice) and node.upper is not None:
            self._use(node.upper, scope, place, "size")
        elif isinstance(node, (ast.BinOp, ast.Compare)):
            parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
            if any(_may_be_tensor(one, scope) for one in parts):
                for one in parts:
                    self._use(one, scope, place, "number")
        return ast.iter_child_nodes(node)

    def _call(self, call: ast.Call, scope: Scope, place: tuple[str, int, int], depth: int) -> list[ast.expr]:
        """Follow a call. Return the parts of the call expression that may use further values."""
        if self.seeded is None and is_seeding(call):
            self.seeded = CallSite(scope.path, call.lineno, None)
        if self.drawn is None and draws(scope.origin(call.func).value):
            self.drawn = CallSite(scope.path, call.lineno, None)
        given = [*call.args, *(one.value for one in call.keywords)]
        inner = scope.bound(call) if depth < _DEEPEST else None
        if inner is not None:
            self.block(*inner, depth + 1)
        elif _is_operation(call.func, scope):
            for one in given:
                self._use(one, scope, place, "size")
            self._mode(given, scope, place)
        is_passed_on = inner is not None or (isinstance(call.func, ast.Name) and call.func.id in _SUMMARIES)
        plain = [one.value if isinstance(one, ast.Starred) else one for one in given]
        return [call.func, *(one for one in plain if not (is_passed_on and is_read(one)))]

    def _use(self, node: ast.expr, scope: Scope, place: tuple[str, int, int], kind: Kind) -> None:
        origin = scope.origin(node)
        if type(origin.value) in (int, float):
            self._add(node, origin, "number" if type(origin.value) is float else kind, place)

    def _mode(self, given: Sequence[ast.expr], scope: Scope, place: tuple[str, int, int]) -> None:
        """Record that an operation drops elements only in training mode, as `F.dropout(x, self.p, self.training)`
        does."""
        values = [scope.origin(one) for one in given]
        if not any(type(one.value) is float and not one.value for one in values):
            for node, one in zip(given, values, strict=True):
                if one.attribute == "training" and one.value is True:
                    self._add(node, replace(one, text=f"{type(one.owner).__name__}.training"), "flag", place)

    def _add(self, node: ast.expr, origin: Origin, kind: Kind, place: tuple[str, int, int]) -> None:
        owner = origin.owner
        is_handed = owner is not None and not issubclass(type(owner), (torch.nn.Module, ModuleType, type))
        if len(self.found) >= _MOST or (origin.now is None and not is_handed):
            return
        if origin.attribute == "training" and issubclass(type(owner), torch.nn.Module) and not origin.value:
            return  # a graph for evaluation may be replayed while its model is in training mode
        text = origin.text or ast.unparse(node)
        carrier = type(owner) if is_handed else None
        self.found.append(
            Frozen(text, kind, origin.value, origin.now, carrier, origin.attribute, origin.computed, place)
        )


def _may_be_tensor(node: ast.expr, scope: Scope) -> bool:
    """Return whether a value is a tensor or unknown. The results of operations are unknown."""
    value = scope.origin(node).value
    if value is MISSING and isinstance(node, ast.Call):
        return _is_operation(node.func, scope) or scope.bound(node) is not None
    return value is MISSING or issubclass(type(value), torch.Tensor)


def _is_operation(function: ast.expr, scope: Scope) -> bool:
    """Return whether an expression names a function of PyTorch or a method of a tensor."""
    if not isinstance(function, ast.Attribute):
        return False
    base = scope.origin(function.value).value
    if isinstance(base, ModuleType):
        return base.__name__.partition(".")[0] == "torch"
    return _may_be_tensor(function.value, scope)


def _works(node: ast.AST) -> bool:
    """Return whether a statement seems to compute something that other statements use."""
    if isinstance(node, ast.Return):
        return True
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        return any(isinstance(one, (ast.BinOp, ast.Call)) for one in ast.walk(node)) or isinstance(node, ast.AugAssign)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return isinstance(node.value.func, ast.Attribute) and node.value.func.attr.endswith("_")
    return any(_works(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt))


def _fills(node: ast.AST, scope: Scope) -> bool:
    """Return whether a statement calls a function of the program that writes into tensors: `self.fill_cache()`."""
    inner = scope.bound(node.value) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    return inner is not None and any(
        isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and _works(one) for one in inner[0]
    )
