"""Operators and comparisons of values."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import state_of
from graphsafe.scan.domain.joins import join, sequence
from graphsafe.scan.domain.numbers import both_states, compared, const_of, folded, is_same, negated, type_of
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
    Instance,
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
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter.conditions.truth import truth
from graphsafe.scan.models import formatting, platforms, protocols, torch_version
from graphsafe.scan.models.operations import elementwise

_ELEMENTWISE = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
"Comparisons that tensors compute element by element."
_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)


def binary_operation(frame: Frame, node: ast.BinOp) -> Value:
    left = frame.evaluate(node.left)
    return binary(frame, node, left, frame.evaluate(node.right))


def binary(frame: Frame, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
    """Return the value of `left op right`."""
    op = node.op
    if isinstance(op, ast.Mod) and type_of(left) == "str":
        formatting.format_item(frame, node, right)
        return STR
    if type(left) is Instance or type(right) is Instance:
        made = protocols.operated(frame, node, op, left, right, isinstance(node, ast.AugAssign))
        if made is not None:
            return made
    if as_tensor(left)[0] is not None or as_tensor(right)[0] is not None:
        return _with_tensor(frame, node, left, right)
    if type(left) is Number and type(right) is Number:
        return folded(op, left, right)
    if type(left) is Array or type(right) is Array:
        return ARRAY
    if type(left) is Sequence or type(left) is Dict:
        together = _of_containers(op, left, right)
        if together is not None:
            return together
    of_masks = isinstance(op, _BITWISE) and (_is_compared(left) or _is_compared(right))
    device = holds_device(left) or holds_device(right)
    if device:
        # One operand may be a tensor, and the other one a number that outlives the step.
        frame.use_number(left, "operand", node)
        frame.use_number(right, "operand", node)
    state = both_states(state_of(left), state_of(right))
    on_host = _stays_on_host(left) and _stays_on_host(right)
    return Unknown(depends_on_step(left) or depends_on_step(right), device, on_host, of_masks, state)


def _stays_on_host(value: Value) -> bool:
    return type(value) is Number or (type(value) is Unknown and value.host)


def _with_tensor(frame: Frame, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
    """Return the value of an operation with at least one tensor operand."""
    op = node.op
    lt, rt = as_tensor(left)[0], as_tensor(right)[0]
    frame.use_number(left, "operand", node)
    frame.use_number(right, "operand", node)
    if lt is not None and rt is not None:
        if type(node) is ast.BinOp and lt.where != rt.where:
            _placed_by_operand(frame, node.left, lt, rt)
            _placed_by_operand(frame, node.right, rt, lt)
        return elementwise((lt, rt), None if isinstance(op, ast.Div) else promote(lt.dtype, rt.dtype))
    tensor, other = (lt, right) if lt is not None else (rt, left)
    assert tensor is not None
    if type(other) is Array:
        return UNKNOWN
    if type(other) is Sequence and other.kind in ("list", "tuple") and isinstance(op, ast.Mult):
        # In `[0] * lengths[i]`, the list needs an integer, so the host reads the tensor.
        if tensor.where != "host" and tensor.ndim in (0, None):
            confidence = confidence_of(tensor, tensor.ndim == 0 or tensor.where == "device")
            frame.emit("HostRead", "index", node, confidence, value=describe(tensor))
        return of_elements(other.kind, other.elem)
    dtype = tensor.dtype
    if isinstance(op, ast.Div) or type_of(other) == "float":
        dtype = "float"
    elif dtype == "bool" and not isinstance(op, _BITWISE):
        dtype = None
    result = elementwise((tensor,), dtype)
    return replace(result, step=True) if depends_on_step(other) else result


def _of_containers(op: ast.operator, left: Sequence | Dict, right: Value) -> Value | None:
    """Return the result of an operator on a list or dict (`[a] + [b]`, `[a] * n`, `a | b`), or None for any other
    operation."""
    if type(left) is Dict:
        return join(left, right) if type(right) is Dict else None
    assert type(left) is Sequence
    if type(right) is Sequence and isinstance(op, ast.Add):
        if left.items is not None and right.items is not None:
            return sequence(left.kind, left.items + right.items)
        return of_elements(left.kind, join(left.elem, right.elem) if left.items != () else right.elem)
    return of_elements(left.kind, left.elem) if isinstance(op, ast.Mult) else None


def _is_compared(value: Value) -> bool:
    return type(value) is Unknown and value.compared


def _placed_by_operand(frame: Frame, node: ast.expr, tensor: Tensor, other: Tensor) -> None:
    """Bind a name to a host tensor if the placement of its tensor is unknown and the other operand is on the host."""
    if tensor.where != "any" or not isinstance(node, ast.Name) or type(frame.env.get(node.id)) is not Tensor:
        return
    if together((tensor, other)) == "host":
        frame.env[node.id] = replace(tensor, where="host")


def promote(a: Dtype | None, b: Dtype | None) -> Dtype | None:
    if a == b:
        return a
    if "float" in (a, b):
        return "float"
    return None if None in (a, b) else "int"


def unary(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        known = truth(frame, node.operand, "not", node)
        if known is not None:
            return replace(known, const=not known.const, type="bool")
        state = state_of(frame.evaluate_quietly(node.operand))
        return replace(BOOL, state=state) if state else BOOL
    value = frame.evaluate(node.operand)
    tensor, _ = as_tensor(value)
    if tensor is not None:
        # `~` inverts masks far more often than integers.
        dtype = tensor.dtype or ("bool" if isinstance(node.op, ast.Invert) else None)
        return elementwise((tensor,), dtype)
    made = protocols.signed(frame, node, node.op, value)
    if made is not None:
        return made
    return negated(node.op, value) if type(value) is Number else value


def compare(frame: Frame, node: ast.Compare) -> Value:
    answer = torch_version.compared(frame, node)
    if answer is not None:
        return answer
    left = frame.evaluate(node.left)
    result: Value = BOOL
    for i, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = frame.evaluate(right_node)
        result = _compare_pair(frame, node, op, left, right)
        if i < len(node.ops) - 1:
            on_device = right if as_tensor(left)[0] is None else left
            frame.emit_if_on_device("Branch", "compare", node, result, describe(on_device))
        left = right
    return result


def _compare_pair(frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Value:
    if type(right) is NoneValue and type(left) is Number and left.const is None:
        return replace(left, const=isinstance(op, (ast.Is, ast.Eq)), type="bool")
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(op, left, right)
    if type(left) is Instance or type(right) is Instance:
        answer = protocols.compared(frame, node, op, left, right)
        if answer is not None:
            return answer
    if isinstance(op, (ast.In, ast.NotIn)):
        return _contains(frame, node, op, left, right)
    if isinstance(op, ast.Eq) and const_of(right) is not UNSET and _is_unset_switch(left):
        return Number(False, overridable_by="environment", type="bool")
    if as_tensor(left)[0] is not None or as_tensor(right)[0] is not None:
        return _compared_with_tensor(frame, node, left, right)
    if type(left) is Array or type(right) is Array:
        return ARRAY
    if type(left) is Number and type(right) is Number:
        return compared(op, left, right)
    if type(left) is NoneValue or type(right) is NoneValue or type(left) is type(right) is DeviceValue:
        return BOOL
    if (type(left) is Unknown and left.device) or (type(right) is Unknown and right.device):
        is_text = "str" in (type_of(left), type_of(right))
        step = depends_on_step(left) or depends_on_step(right)
        return Unknown(step, compared=isinstance(op, _ELEMENTWISE) and not is_text)
    state = both_states(state_of(left), state_of(right))
    return replace(BOOL, state=state) if state else BOOL


def _compared_with_tensor(frame: Frame, node: ast.Compare, left: Value, right: Value) -> Value:
    """Return the result of a comparison with a tensor: a mask, or a bool if the other side is None, a string or a
    list."""
    (lt, l_certain), (rt, r_certain) = as_tensor(left), as_tensor(right)
    if lt is not None and rt is not None:
        return elementwise((lt, rt), "bool")
    tensor, certain, other = (lt, l_certain, right) if lt is not None else (rt, r_certain, left)
    assert tensor is not None
    if type(other) in (NoneValue, Sequence) or type_of(other) == "str":
        return BOOL  # `tensor == []` compares no elements: the result is False
    frame.use_number(other, "operand", node)
    mask = replace(elementwise((tensor,), "bool"), step=tensor.step or depends_on_step(other))
    return mask if certain else join(mask, BOOL)


def _is_unset_switch(value: Value) -> bool:
    """Return whether a value is `os.environ.get("X")` without a default: None, unless somebody sets the variable."""
    return isinstance(value, Union) and all(
        isinstance(option, NoneValue) or (isinstance(option, Number) and option.overridable_by == "environment")
        for option in value.options
    )


def _identity(op: ast.cmpop, left: Value, right: Value) -> Value:
    if type(right) is NoneValue or type(left) is NoneValue:
        is_none = may_be_none(left if type(right) is NoneValue else right)
        if is_none is not None:
            return number(is_none if isinstance(op, ast.Is) else not is_none)
    if type(left) is Number and type(right) is Number and (same := is_same(left, right)) is not None:
        by = left.overridable_by or right.overridable_by
        return Number(same is isinstance(op, ast.Is), overridable_by=by, type="bool")
    return BOOL


def _may_be_text(value: Value) -> bool:
    return any(type_of(option) == "str" or isinstance(const_of(option), str) for option in options(value))


def _contains(frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Value:
    if type(left) is Number and left.const in platforms.OTHER_DEVICES and type(right) not in (Sequence, Dict):
        # `"mps" in str(device)`
        return Number(isinstance(op, ast.NotIn), overridable_by="platform", type="bool")
    tensor, certain = as_tensor(right)
    if tensor is not None:
        # A tensor contains no string, so the container must be a dict.
        if tensor.where != "host" and not _may_be_text(left):
            # An unknown value is more often a key of a dict than an element of a tensor.
            confidence = "possible" if type(left) is Unknown else confidence_of(tensor, certain)
            frame.emit("Branch", "in", node, confidence, value=describe(right))
        return BOOL
    if type(right) is Dict or (type(right) is Sequence and right.kind == "set"):
        protocols.hashed(frame, node, left)
    # A dict or a set uses the hash of a tensor, which depends only on its identity. A list compares values.
    is_listed = type(right) is Sequence and right.kind in ("list", "tuple")
    if is_listed and frame.emit_if_on_device("Branch", "in", node, left):
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
    if type(left) is Number and left.state:
        return Number(state=left.state, type="bool")
    return BOOL
