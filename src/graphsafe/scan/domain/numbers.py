"""Numbers on the host: their known values, and the results of Python's operators on them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import UNSET, Number, Value, number

MAX_STATES = 8
"The largest number of attributes and globals that are recorded as the sources of a number."
NO_STATE: tuple[str, ...] = ()
MAX_FOLDED = 1000
"The largest number of characters (of a string) or bits (of a number) that a folded constant may have."

_FOLD: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: lambda const: const,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def const_of(value: Value | None) -> Any:
    """Return a value's constant, or UNSET if it is not known or the value is not a number."""
    return value.const if type(value) is Number else UNSET


def type_of(value: Value | None) -> str | None:
    """Return the name of a number's type (such as `int` or `str`), or None if it is not known or the value is not a
    number."""
    return value.type if type(value) is Number else None


def both_states(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """Return the joined state of two operands: the attributes and globals from which their result is computed."""
    if left == right or not right:
        return left
    return tuple(sorted({*left, *right})[:MAX_STATES]) if left else right


def entry(key: str, name: object) -> str:
    """Return the name of a dict entry's state: `key['name']`, or the dict's own name if the key is not a string."""
    return f"{key}[{name!r}]" if isinstance(name, str) else key


def folded(op: ast.operator, left: Number, right: Number) -> Number:
    """Return the result of an operator on two numbers. Its value is known if both operands are known and the result is
    small."""
    state = both_states(left.state, right.state)
    kind = left.type if left.type == right.type else "float" if "float" in (left.type, right.type) else None
    if isinstance(op, ast.Div):
        kind = "float"
    fold = _FOLD.get(type(op))
    const = UNSET
    if fold is not None and _is_small(op, left.const, right.const):
        const = _result(fold, left.const, right.const)
    if const is UNSET:
        return Number(state=state, type=kind)
    return replace(number(const), state=state, overridable_by=left.overridable_by or right.overridable_by)


def _result(operation: Callable[..., Any], *consts: Any) -> Any:
    """Return the result of an operation, or UNSET if the operation raises an error. The user's constants may raise any
    error."""
    try:
        return operation(*consts)
    except Exception:
        return UNSET


def _is_small(op: ast.operator, left: object, right: object) -> bool:
    """Return whether the result of an operator is small. `"ab" * 500_000_000` would take a gigabyte."""
    sizes = _size(left), _size(right)
    if isinstance(op, ast.Mult) and (isinstance(left, (str, bytes)) or isinstance(right, (str, bytes))):
        times = right if isinstance(left, (str, bytes)) else left
        return isinstance(times, int) and max(times, 0) * max(sizes) <= MAX_FOLDED
    if isinstance(op, ast.Mod) and not isinstance(left, (int, float)):
        return False  # a format string may contain a width: `b"%999999999d" % 1`
    return sum(sizes) <= MAX_FOLDED


def _size(const: object) -> int:
    """Return the number of characters of a string or of bits of a number. Any other constant counts as too large."""
    if isinstance(const, (str, bytes)):
        return len(const)
    if isinstance(const, int):
        return const.bit_length()
    return 64 if isinstance(const, (float, complex)) else MAX_FOLDED + 1


def negated(op: ast.unaryop, value: Number) -> Number:
    """Return `-value`, `+value` or `~value`. A number without a known value is unchanged."""
    return value if value.const is UNSET else replace(value, const=_result(_UNARY[type(op)], value.const))


def is_same(left: Number, right: Number) -> bool | None:
    """Return the result of `is` for two numbers, or None if one of them is not known."""
    if UNSET in (left.const, right.const):
        return None
    return left.const is right.const or (left.const == right.const and type(left.const) is type(right.const))


def compared(op: ast.cmpop, left: Number, right: Number) -> Number:
    """Return the result of a comparison such as `==` or `<`. Its value is known if both numbers are known."""
    answer = Number(state=both_states(left.state, right.state), type="bool")
    if isinstance(op, (ast.Eq, ast.NotEq)) and _are_of_other_types(left, right):
        return replace(answer, const=isinstance(op, ast.NotEq))
    if left.const is UNSET or right.const is UNSET:
        return answer
    compare = _COMPARE[type(op)]
    const = _result(lambda: bool(compare(left.const, right.const)))
    if const is UNSET:
        return answer
    return replace(answer, const=const, overridable_by=left.overridable_by or right.overridable_by)


def _are_of_other_types(left: Number, right: Number) -> bool:
    """Return whether exactly one operand is a string, judging by the types: `zero_division: float` never equals
    "warn"."""
    from_outside = ("environment", "platform")
    types = {left.type, right.type}
    return (
        None not in types
        and "str" in types
        and len(types) > 1
        and left.overridable_by not in from_outside
        and right.overridable_by not in from_outside
    )
