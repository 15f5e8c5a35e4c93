"""Operators and comparisons of values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import state_of
from graphsafe.scan.domain.joins import join, sequence
from graphsafe.scan.domain.values import (
    ARRAY,
    BOOL,
    STR,
    UNKNOWN,
    UNSET,
    Array,
    DeviceValue,
    Dict,
    Dtype,
    NoneValue,
    Number,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    as_tensor,
    confidence_of,
    depends_on_step,
    describe,
    holds_device,
    may_be_none,
    number,
    of_elements,
    options,
    together,
)
from graphsafe.scan.interpreter.conditions.truth import truth
from graphsafe.scan.models import formatting
from graphsafe.scan.models.operations import elementwise

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


MAX_FOLDED = 1000
"The most characters of a text, or bits of a number, that a folded constant may have."

_FOLD: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


_ELEMENTWISE = (*_COMPARE,)
"Comparisons that tensors answer element by element."


def binary_operation(engine: Engine, frame: Frame, node: ast.BinOp) -> Value:
    left = engine.evaluate(frame, node.left)
    return binary(engine, frame, node, left, engine.evaluate(frame, node.right))


def binary(engine: Engine, frame: Frame, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
    op = node.op
    lt, _ = as_tensor(left)
    rt, _ = as_tensor(right)
    if isinstance(op, ast.Mod) and isinstance(left, Number) and left.type == "str":
        formatting.format_item(engine, frame, node, right)
        return STR
    if lt is not None or rt is not None:
        engine.use_number(frame, left, "operand", node)
        engine.use_number(frame, right, "operand", node)
        if lt is not None and rt is not None:
            if type(node) is ast.BinOp and lt.where != rt.where:
                _placed_by_operand(frame, node.left, lt, rt)
                _placed_by_operand(frame, node.right, rt, lt)
            return elementwise((lt, rt), None if isinstance(op, ast.Div) else promote(lt.dtype, rt.dtype))
        tensor, other = (lt, right) if lt is not None else (rt, left)
        assert tensor is not None
        if type(other) is Array:
            return UNKNOWN
        dtype = tensor.dtype
        if isinstance(op, ast.Div) or (type(other) is Number and other.type == "float"):
            dtype = "float"
        elif dtype == "bool" and not isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            dtype = None
        result = elementwise((tensor,), dtype)
        return replace(result, step=True) if depends_on_step(other) else result
    if type(left) is Number and type(right) is Number:
        return _fold(op, left, right)
    if type(left) is Array or type(right) is Array:
        return ARRAY
    if type(left) is Sequence and type(right) is Sequence and isinstance(op, ast.Add):
        if left.items is not None and right.items is not None:
            return sequence(left.kind, left.items + right.items)
        return of_elements(left.kind, join(left.elem, right.elem) if left.items != () else right.elem)
    if type(left) is Sequence and isinstance(op, ast.Mult):
        return of_elements(left.kind, left.elem)
    if type(left) is Dict and type(right) is Dict:
        return join(left, right)
    compared = isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)) and (_is_compared(left) or _is_compared(right))
    device = holds_device(left) or holds_device(right)
    if device:
        # What is computed from a tensor and a number that is state.
        engine.use_number(frame, left, "operand", node)
        engine.use_number(frame, right, "operand", node)
    state = state_of(left) or state_of(right)
    return Unknown(depends_on_step(left) or depends_on_step(right), device, compared=compared, state=state)


def _is_compared(value: Value) -> bool:
    return type(value) is Unknown and value.compared


def _placed_by_operand(frame: Frame, node: ast.expr, tensor: Tensor, other: Tensor) -> None:
    """A tensor that may be anywhere, as an operand beside a tensor of the host, is on the host, too."""
    if tensor.where != "any" or not isinstance(node, ast.Name) or type(frame.env.get(node.id)) is not Tensor:
        return
    if together((tensor, other)) == "host":
        frame.env[node.id] = replace(tensor, where="host")


def _fold(op: ast.operator, left: Number, right: Number) -> Number:
    state = left.state or right.state
    kind = left.type if left.type == right.type else "float" if "float" in (left.type, right.type) else None
    if isinstance(op, ast.Div):
        kind = "float"
    fold = _FOLD.get(type(op))
    if fold is not None and _is_small(op, left.const, right.const):
        try:
            const = fold(left.const, right.const)
        except Exception:  # whatever the user's constants do, the product is only not known
            return Number(state=state, type=kind)
        return replace(number(const), state=state, overridable_by=left.overridable_by or right.overridable_by)
    return Number(state=state, type=kind)


def _is_small(op: ast.operator, left: object, right: object) -> bool:
    """Whether two constants make a small one: `"ab" * 500_000_000` is a gigabyte that nobody asked for."""
    sizes = _size(left), _size(right)
    if isinstance(op, ast.Mult) and (isinstance(left, (str, bytes)) or isinstance(right, (str, bytes))):
        times = right if isinstance(left, (str, bytes)) else left
        return isinstance(times, int) and max(times, 0) * max(sizes) <= MAX_FOLDED
    if isinstance(op, ast.Mod) and not isinstance(left, (int, float)):
        return False  # a text with a width in it: `b"%999999999d" % 1`
    return sum(sizes) <= MAX_FOLDED


def _size(const: object) -> int:
    """The characters of a text, the bits of a number; too many of what is neither."""
    if isinstance(const, (str, bytes)):
        return len(const)
    if isinstance(const, int):
        return const.bit_length()
    return 64 if isinstance(const, (float, complex)) else MAX_FOLDED + 1


def promote(a: Dtype | None, b: Dtype | None) -> Dtype | None:
    if a == b:
        return a
    if a is None or b is None:
        return "float" if "float" in (a, b) else None
    return "float" if "float" in (a, b) else "int"


def unary(engine: Engine, frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        known = truth(engine, frame, node.operand, "not", node)
        if known is not None:
            return replace(known, const=not known.const, type="bool")
        state = state_of(engine.evaluate_quietly(frame, node.operand))
        return BOOL if state is None else replace(BOOL, state=state)
    value = engine.evaluate(frame, node.operand)
    tensor, _ = as_tensor(value)
    if tensor is not None:
        return elementwise((tensor,), tensor.dtype)
    if type(value) is Number and value.const is not UNSET:
        try:
            const = -value.const if isinstance(node.op, ast.USub) else value.const
            return replace(value, const=const if not isinstance(node.op, ast.Invert) else ~value.const)
        except Exception:
            return replace(value, const=UNSET)
    return value


def compare(engine: Engine, frame: Frame, node: ast.Compare) -> Value:
    left = engine.evaluate(frame, node.left)
    result: Value = BOOL
    for i, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = engine.evaluate(frame, right_node)
        result = _compare_pair(engine, frame, node, op, left, right)
        tensor, certain = as_tensor(result)
        if tensor is not None and tensor.where != "host" and i < len(node.ops) - 1:
            engine.emit(frame, "Branch", "compare", node, confidence_of(tensor, certain), value=describe(left))
        left = right
    return result


def _compare_pair(engine: Engine, frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(op, left, right)
    if isinstance(op, (ast.In, ast.NotIn)):
        return _contains(engine, frame, node, op, left, right)
    if isinstance(op, ast.Eq) and isinstance(right, Number) and right.const is not UNSET and _is_unset_switch(left):
        return Number(False, overridable_by="environment", type="bool")
    lt, l_certain = as_tensor(left)
    rt, r_certain = as_tensor(right)
    if lt is not None and rt is not None:
        return elementwise((lt, rt), "bool")
    if lt is not None or rt is not None:
        tensor, certain, other = (lt, l_certain, right) if lt is not None else (rt, r_certain, left)
        assert tensor is not None
        if type(other) is NoneValue or (type(other) is Number and other.type == "str"):
            return BOOL
        engine.use_number(frame, other, "operand", node)
        mask = replace(elementwise((tensor,), "bool"), step=tensor.step or depends_on_step(other))
        return mask if certain else perhaps(mask)
    if type(left) is Array or type(right) is Array:
        return ARRAY
    if type(left) is Number and type(right) is Number:
        state = left.state or right.state
        if isinstance(op, (ast.Eq, ast.NotEq)) and _are_of_other_types(left, right):
            return Number(isinstance(op, ast.NotEq), state=state, type="bool")
        if left.const is not UNSET and right.const is not UNSET:
            try:
                const = bool(_COMPARE[type(op)](left.const, right.const))
            except Exception:
                return Number(state=state, type="bool")
            return Number(const, overridable_by=left.overridable_by or right.overridable_by, state=state, type="bool")
        return Number(state=state, type="bool")
    if isinstance(op, (ast.Eq, ast.NotEq)) and type(left) is DeviceValue and type(right) is DeviceValue:
        return BOOL
    if type(left) is NoneValue or type(right) is NoneValue:
        return BOOL
    step = depends_on_step(left) or depends_on_step(right)
    device = (type(left) is Unknown and left.device) or (type(right) is Unknown and right.device)
    is_text = any(type(side) is Number and side.type == "str" for side in (left, right))
    if device:
        return Unknown(step, compared=isinstance(op, _ELEMENTWISE) and not is_text)
    state = state_of(left) or state_of(right)
    return BOOL if state is None else replace(BOOL, state=state)


def _are_of_other_types(left: Number, right: Number) -> bool:
    """One is a text, the other a number, whatever their values: `zero_division: float` is never "warn"."""
    from_outside = ("environment", "platform")
    types = {left.type, right.type}
    return (
        None not in types
        and "str" in types
        and len(types) > 1
        and left.overridable_by not in from_outside
        and right.overridable_by not in from_outside
    )


def _is_unset_switch(value: Value) -> bool:
    """`os.environ.get("X")` without a default: nothing, where nobody sets it."""
    return isinstance(value, Union) and all(
        isinstance(option, NoneValue) or (isinstance(option, Number) and option.overridable_by == "environment")
        for option in value.options
    )


def perhaps(mask: Tensor) -> Value:
    return join(mask, BOOL)


def _identity(op: ast.cmpop, left: Value, right: Value) -> Value:
    if type(right) is NoneValue or type(left) is NoneValue:
        is_none = may_be_none(left if type(right) is NoneValue else right)
        if is_none is not None:
            return number(is_none if isinstance(op, ast.Is) else not is_none)
    if type(left) is Number and type(right) is Number and UNSET not in (left.const, right.const):
        same = left.const is right.const or (left.const == right.const and type(left.const) is type(right.const))
        return Number(
            same is isinstance(op, ast.Is), overridable_by=left.overridable_by or right.overridable_by, type="bool"
        )
    return BOOL


def _may_be_text(value: Value) -> bool:
    numbers = [option for option in options(value) if type(option) is Number]
    return any(number.type == "str" or isinstance(number.const, str) for number in numbers)


def _contains(engine: Engine, frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Value:
    tensor, certain = as_tensor(right)
    if tensor is not None:
        # A tensor holds no text: what is asked is a dict, if anything.
        if tensor.where != "host" and not _may_be_text(left):
            # What nothing is known of is a key more often than an element.
            confidence = "possible" if type(left) is Unknown else confidence_of(tensor, certain)
            engine.emit(frame, "Branch", "in", node, confidence, value=describe(right))
        return BOOL
    item, certain = as_tensor(left)
    # A dict or set asks for a hash, which is the tensor's identity; a list compares values.
    if item is not None and item.where != "host" and type(right) is Sequence and right.kind in ("list", "tuple"):
        engine.emit(frame, "Branch", "in", node, confidence_of(item, certain), value=describe(left))
        return BOOL
    if type(left) is Number and left.const is not UNSET and type(right) is Sequence and right.items is not None:
        consts = [option.const for option in right.items if type(option) is Number]
        if len(consts) == len(right.items) and UNSET not in consts:
            return Number(
                (left.const in consts) is isinstance(op, ast.In),
                overridable_by=left.overridable_by,
                state=left.state,
                type="bool",
            )
    if type(left) is Number and left.state is not None:
        return Number(state=left.state, type="bool")
    return BOOL
