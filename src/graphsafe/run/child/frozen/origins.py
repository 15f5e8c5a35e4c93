"""Finds the values of expressions in captured code, and a way to find each value again before a replay.

No code of the program is run. An `Origin` is a value and a function that looks it up again. The function starts at a
weakly referenced object, at a global of a module or at a variable of a closure. From there it follows attributes,
elements and arithmetic.
"""

from __future__ import annotations

import ast
import functools
import inspect
import operator
import sys
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType, FunctionType, MethodType
from typing import Any

import torch

from graphsafe.capture.shared.frames import is_user_file
from graphsafe.run.child.frozen.variables import Variable, variables_of
from graphsafe.run.child.names import MISSING, attribute, attributes_of, elements_of, locals_of, weak_to
from graphsafe.run.child.source import assigned_in, function_of, given_by, lambda_of, parameters, stored_in

PLAIN = (bool, int, float, str, type(None))
_DEEPEST = 16
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_PURE = {one.__name__: one for one in (int, float, bool, min, max, abs, round, len)}


@dataclass(frozen=True, slots=True)
class Origin:
    value: Any
    now: Callable[[], Any] | None = None
    """Looks the value up again, and keeps no object alive. It is None if the value is fixed or cannot be looked up
    again."""
    text: str = ""
    owner: Any = None
    "The object that has the value as an attribute."
    attribute: str = ""
    computed: Callable[[Any], Any] | None = None
    "Computes the value from the attribute, as in `request.mask is not None`. It is None if both are the same."
    variables: tuple[Variable, ...] = ()
    """The variables that hold the value, in the functions that led to the capture.

    For a tuple and a call of `functools.partial`, these are the variables among its elements or arguments.
    """
    elements: tuple[Origin, ...] = ()
    "The origins of a tuple's elements, if the program's code contains the tuple's expression."

    @classmethod
    def of(cls, value: Any) -> Origin:
        """Return the origin of an object itself."""
        held = None if isinstance(value, PLAIN) else weak_to(value)
        # The value of a deleted object is unknown. It is not None.
        return cls(value, None if held is None else lambda: MISSING if (live := held()) is None else live)


class Scope:
    """The names that are visible in a function that a capture runs."""

    def __init__(
        self,
        given: Mapping[str, Origin],
        assigned: Mapping[str, ast.expr],
        space: Mapping[str, Any],
        path: str,
        variables: tuple[Variable, ...] = (),
    ) -> None:
        """Hold the names. `variables` are the variables of the capturing functions."""
        self._given, self._assigned, self._space, self.path = given, assigned, space, path
        self.variables = variables
        self._known: dict[str, Origin] = {}
        "The origins of the assigned variables that have been looked up so far."

    def with_name(self, name: str, origin: Origin) -> Scope:
        return Scope({**self._given, name: origin}, self._assigned, self._space, self.path, self.variables)

    def origin(self, node: ast.expr, depth: int = 0) -> Origin:
        """Return the origin of an expression. The value of the origin is `MISSING` if the expression cannot be
        evaluated."""
        evaluate = _RULES.get(type(node))
        return _UNKNOWN if evaluate is None or depth > _DEEPEST else evaluate(self, node, depth + 1)

    def _name(self, node: ast.Name, depth: int) -> Origin:
        if node.id in self._given:
            return self._given[node.id]
        if node.id in self._assigned:
            if node.id not in self._known:
                self._known[node.id] = _UNKNOWN  # a variable may be computed from itself
                self._known[node.id] = self.origin(self._assigned[node.id], depth)
            return self._known[node.id]
        if node.id not in self._space:
            return _UNKNOWN
        module = weak_to(sys.modules.get(self._space.get("__name__", "")))
        name = node.id
        value = self._space[name]
        return Origin(value, None if module is None else lambda: attribute(module(), name), name)

    def _attribute(self, node: ast.Attribute, depth: int) -> Origin:
        base, name = self.origin(node.value, depth), node.attr
        getter = inspect.getattr_static(type(base.value), name, None)
        if type(getter) is property:
            found = self._returned(called(getter.fget, [base], {}), depth)
            return replace(found, text=ast.unparse(node), owner=base.value, attribute=name)
        value = attribute(base.value, name)
        now = base.now
        return Origin(
            value, None if now is None else lambda: attribute(now(), name), ast.unparse(node), base.value, name
        )

    def _operation(self, node: ast.BinOp | ast.UnaryOp | ast.Compare, depth: int) -> Origin:
        kind: ast.AST
        if isinstance(node, ast.Compare):
            kind, parts = node.ops[0], [node.left, *node.comparators]
        else:
            kind, parts = node.op, [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
        origins, run = [self.origin(one, depth) for one in parts], _OPERATORS.get(type(kind))
        if run is None or not isinstance(kind, (ast.Is, ast.IsNot)):
            return _computed(node, run, origins, PLAIN)
        found = _computed(node, run, origins)
        first, other = origins
        if first.owner is None or first.computed is not None or not isinstance(other.value, PLAIN):
            return found
        return replace(found, owner=first.owner, attribute=first.attribute, computed=lambda now: run(now, other.value))

    def _call(self, node: ast.Call, depth: int) -> Origin:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        given = [self.origin(one, depth) for one in node.args]
        if name == "getattr" and len(given) == 2:
            return _computed(node, attribute, given)
        if name in _PURE and self._space.get(name) in (None, _PURE[name]) and not node.keywords:
            return _computed(node, _PURE[name], given, (*PLAIN, list, tuple, dict))
        if self.origin(node.func, depth).value is functools.partial:
            return Origin(MISSING, variables=tuple(known for one in given for known in one.variables))
        return self._returned(self.bound(node, depth), depth)

    def _returned(self, ran: tuple[Sequence[ast.stmt], Scope] | None, depth: int) -> Origin:
        """Return the origin of the return value of a function that consists only of a `return` statement."""
        body = [] if ran is None else [one for one in ran[0] if not _is_text(one)]
        if ran is not None and len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
            return ran[1].origin(body[0].value, depth)
        return _UNKNOWN

    def bound(self, call: ast.Call, depth: int = 0) -> tuple[Sequence[ast.stmt], Scope] | None:
        """Return the statements of the program's function that a call runs, and their scope. Return None if they are
        unknown."""
        function = self.origin(call.func, depth)
        named = {one.arg: self.origin(one.value, depth) for one in call.keywords if one.arg is not None}
        return called(function.value, self._elements(call.args, depth), named, self.variables)

    def _tuple(self, node: ast.Tuple, depth: int) -> Origin:
        elements = self._elements(node.elts, depth)
        return Origin(MISSING, variables=tuple(v for one in elements for v in one.variables), elements=tuple(elements))

    def _elements(self, nodes: Iterable[ast.expr], depth: int) -> list[Origin]:
        found: list[Origin] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.origin(node.value, depth)
                found += inner.elements or map(Origin.of, elements_of(inner.value))
            else:
                found.append(self.origin(node, depth))
        return found


def callee(value: Any) -> tuple[FunctionType, tuple[Any, ...], Mapping[str, Any]] | None:
    """Return the Python function that a call of `value` runs.

    Also return the positional and the named arguments that the call adds, such as `self`. Return None if no Python
    function is found.
    """
    kind = type(value)  # `isinstance` could run the object's `__class__` property
    if kind is FunctionType:
        inner = attributes_of(value).get("__wrapped__")
        is_around = type(inner) is FunctionType and not is_user_file(value.__code__.co_filename)
        return callee(inner) if is_around else (value, (), {})  # such as the wrapper of `@torch.no_grad()`
    first, named = (value,), {}
    if kind is functools.partial:
        run, first, named = value.func, value.args, value.keywords
    elif kind is MethodType:
        run, first = value.__func__, (value.__self__,)
    else:
        run = inspect.getattr_static(kind, "forward" if issubclass(kind, torch.nn.Module) else "__call__", None)
        if type(run) is not FunctionType:
            return None
    known = callee(run)
    return None if known is None else (known[0], (*known[1], *first), {**known[2], **named})


def called(
    value: Any, given: Sequence[Origin], named: Mapping[str, Origin], variables: tuple[Variable, ...] = ()
) -> tuple[Sequence[ast.stmt], Scope] | None:
    """Return the statements that a call of `value` runs, and their scope.

    `value` must be a function of the program or a module; otherwise return None.
    """
    known = callee(value)
    if known is None:
        return None
    function, first, own = known
    given = [*map(Origin.of, first), *given]
    named = {**{name: Origin.of(one) for name, one in own.items()}, **named}
    code = function.__code__
    is_layer = code.co_name == "forward" and given and issubclass(type(given[0].value), torch.nn.Module)
    is_ours = is_user_file(code.co_filename) or is_layer
    tree = (lambda_of(code) or function_of(code)) if is_ours else None
    if tree is None:
        return None
    names, stored = parameters(code), stored_in(tree)
    bound = {**dict(zip(names, given, strict=False)), **{name: one for name, one in named.items() if name in names}}
    bound = {name: one for name, one in bound.items() if name not in stored}
    bound |= {name: one for name, one in _cells(function, variables) if name not in stored}
    body = [ast.copy_location(ast.Return(tree.body), tree.body)] if isinstance(tree, ast.Lambda) else tree.body
    return body, Scope(bound, assigned_in(tree, names), function.__globals__, code.co_filename, variables)


def running_in(frame: FrameType) -> Scope:
    """Return the scope of a running function. It holds the present values of all variables."""
    given = {name: Origin.of(value) for name, value in locals_of(frame).items()}
    return Scope(given, {}, ChainMap(frame.f_globals, frame.f_builtins), frame.f_code.co_filename)


def scope_of(frames: Sequence[FrameType]) -> Scope:
    """Return the scope of the first frame. The remaining frames are its callers."""
    frame = frames[0]
    code, shown = frame.f_code, locals_of(frame)
    function = function_of(code)
    outer = scope_of(frames[1:]) if len(frames) > 1 else _NOWHERE
    own = {name: variables_of(frame, name, value) for name, value in shown.items()}
    variables = (*(one for known in own.values() for one in known), *outer.variables)
    given = {name: Origin.of(value) for name, value in shown.items()}
    if function is None:
        is_module = shown.keys() == frame.f_globals.keys()
        return Scope({} if is_module else given, {}, frame.f_globals, code.co_filename, variables)
    stored = stored_in(function)
    passed = given_by(frames[1], code) if len(frames) > 1 else {}
    known = [
        (name, outer.origin(expression)) for name, expression in passed.items() if name in shown and name not in stored
    ]
    own |= {name: (*own.get(name, ()), *one.variables) for name, one in known}
    given |= _that_hold(known, shown)
    held = {name: _elements_that_hold(one, shown[name]) for name, one in known}
    inner = Scope(given, {}, frame.f_globals, code.co_filename)
    assigned = assigned_in(function, parameters(code)).items()
    given |= _that_hold([(name, inner.origin(one)) for name, one in assigned], shown)
    given = {
        name: replace(one, variables=own.get(name, ()), elements=held.get(name, ())) for name, one in given.items()
    }
    return Scope(given, {}, frame.f_globals, code.co_filename, variables)


def _that_hold(known: Iterable[tuple[str, Origin]], shown: Mapping[str, Any]) -> Mapping[str, Origin]:
    """Return the origins of the variables whose values are plain and equal to the values in `shown`."""
    return {name: one for name, one in known if _holds(one, shown.get(name, MISSING))}


def _holds(known: Origin, value: Any) -> bool:
    return isinstance(known.value, PLAIN) and type(known.value) is type(value) and bool(known.value == value)


def _elements_that_hold(known: Origin, value: Any) -> tuple[Origin, ...]:
    """Return the origins of the elements of the tuple `value`. The tuple's expression has the origin `known`."""
    shown = elements_of(value)
    if len(shown) != len(known.elements):
        return ()
    pairs = list(zip(known.elements, shown, strict=True))
    return tuple(replace(one if _holds(one, now) else Origin.of(now), variables=one.variables) for one, now in pairs)


def attribute_or_property(value: Any, name: str) -> Any:
    """Return the value of an attribute, or of a property that only computes its value from attributes."""
    node = ast.Attribute(ast.Name("value"), name)
    return Scope({"value": Origin.of(value)}, {}, {}, "").origin(node).value


def _computed(
    node: ast.expr, run: Callable[..., Any] | None, parts: Sequence[Origin], kinds: tuple[type, ...] = (object,)
) -> Origin:
    """Return the origin of a value that `run` computes from the values of `parts`. Each of these values must have one
    of the types in `kinds`."""

    def compute(values: Sequence[Any]) -> Any:
        if run is None or any(one is MISSING or not isinstance(one, kinds) for one in values):
            return MISSING
        try:
            return run(*values)
        except (ArithmeticError, TypeError, ValueError):
            return MISSING

    fixed = [one.value if isinstance(one.value, PLAIN) else MISSING for one in parts]
    ways = [one.now for one in parts]
    value = compute([one.value for one in parts])
    if all(now is None for now in ways):
        return Origin(value, None, ast.unparse(node))
    now = [known if now is None else None for now, known in zip(ways, fixed, strict=True)]
    return Origin(
        value,
        lambda: compute([known if way is None else way() for way, known in zip(ways, now, strict=True)]),
        ast.unparse(node),
    )


def _item(values: Any, index: Any) -> Any:
    if type(index) not in (int, str, bool) or not isinstance(values, (list, tuple, dict)):
        return MISSING
    try:
        return dict.get(values, index, MISSING) if isinstance(values, dict) else elements_of(values)[index]
    except (IndexError, TypeError):
        return MISSING


def _cells(function: FunctionType, variables: Sequence[Variable]) -> Iterator[tuple[str, Origin]]:
    """Yield the variables of a function's closure, by name. `variables` may contain variables of the enclosing
    function."""
    held = weakref.ref(function)

    def look(at: int) -> Any:
        live = held()
        try:
            return MISSING if live is None or live.__closure__ is None else live.__closure__[at].cell_contents
        except ValueError:  # the variable has no value yet
            return MISSING

    around = [one for one in variables if function.__code__ in one.code.co_consts]
    for at, name in enumerate(function.__code__.co_freevars):
        same = tuple(one for one in around if one.name == name)
        yield name, Origin(look(at), functools.partial(look, at), name, variables=same)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


_UNKNOWN = Origin(MISSING)
_NOWHERE = Scope({}, {}, {}, "")
_RULES: dict[type[ast.AST], Any] = {
    ast.Constant: lambda _, node, __: Origin(node.value, None, repr(node.value)),
    ast.Name: Scope._name,
    ast.Attribute: Scope._attribute,
    ast.Subscript: lambda scope, node, depth: _computed(
        node, _item, [scope.origin(node.value, depth), scope.origin(node.slice, depth)]
    ),
    ast.Tuple: Scope._tuple,
    ast.BinOp: Scope._operation,
    ast.UnaryOp: Scope._operation,
    ast.Compare: Scope._operation,
    ast.Call: Scope._call,
}
