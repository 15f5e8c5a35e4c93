"""Expressions: what each one is worth, and what evaluating it makes the host wait for."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphsafe.report.model import Confidence
from graphsafe.scan import calls, guards, members
from graphsafe.scan.index import dotted
from graphsafe.scan.subscripts import subscript, subscript_store
from graphsafe.scan.values import (
    ARRAY,
    BOOL,
    NUMBER,
    STR,
    UNKNOWN,
    UNSET,
    Array,
    DeviceValue,
    Dict,
    Dtype,
    Function,
    Instance,
    NoneValue,
    Number,
    Sequence,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
    describe,
    holds_device,
    join,
    join_all,
    may_be_none,
    number,
    of_elements,
    options,
    sequence,
)

if TYPE_CHECKING:
    from graphsafe.scan.engine import Engine
    from graphsafe.scan.frame import Frame

__all__ = ["binary", "element", "evaluate", "subscript_store", "truth"]


def evaluate(engine: Engine, frame: Frame, node: ast.expr) -> Value:
    handler = _HANDLERS.get(type(node))
    return UNKNOWN if handler is None else handler(engine, frame, node)


def confidence_of(tensor: Tensor, certain: bool) -> Confidence:
    return "likely" if certain and tensor.sure else "possible"


def use_number(engine: Engine, frame: Frame, value: Value, kind: str, node: ast.AST) -> None:
    """Note that a host number which is state decides what the device does here."""
    if frame.hot and type(value) is Number and value.state is not None:
        engine.state.use(value.state, kind, frame.path, node)  # type: ignore[arg-type]


# leaves


def _constant(engine: Engine, frame: Frame, node: ast.Constant) -> Value:
    if node.value is None:
        return NoneValue()
    return number(node.value)


def _name(engine: Engine, frame: Frame, node: ast.Name) -> Value:
    value = engine.name(frame, node.id)
    if type(value) is Number and value.state is None and node.id not in frame.env and node.id in frame.file.assigns:
        return replace(value, state=f"{frame.path}::{node.id}")
    return value


def _attribute(engine: Engine, frame: Frame, node: ast.Attribute) -> Value:
    text = dotted(node)
    if text is not None and text in frame.env:
        value = frame.env[text]
        if frame.hot:
            _note_read(engine, frame, node)
        return value
    owner = evaluate(engine, frame, node.value)
    found = [members.attribute(engine, frame, node, option, node.attr, text) for option in options(owner)]
    return join_all(found) if found else UNKNOWN


def _note_read(engine: Engine, frame: Frame, node: ast.Attribute) -> None:
    if isinstance(node.value, ast.Name):
        owner = frame.env.get(node.value.id)
        if type(owner) is Instance:
            engine.state.read(f"{engine.attributes.owner(owner.ref, node.attr)}.{node.attr}")


# operators

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


def _binary(engine: Engine, frame: Frame, node: ast.BinOp) -> Value:
    return binary(engine, frame, node, evaluate(engine, frame, node.left), evaluate(engine, frame, node.right))


def binary(engine: Engine, frame: Frame, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
    op = node.op
    lt, _ = as_tensor(left)
    rt, _ = as_tensor(right)
    if lt is not None or rt is not None:
        use_number(engine, frame, left, "operand", node)
        use_number(engine, frame, right, "operand", node)
        if lt is not None and rt is not None:
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
    if type(left) is Number and isinstance(op, ast.Mod) and left.type == "str":
        _formatted(engine, frame, node, right)
        return STR
    if type(left) is Dict and type(right) is Dict:
        return join(left, right)
    return Unknown(depends_on_step(left) or depends_on_step(right), holds_device(left) or holds_device(right))


def _fold(op: ast.operator, left: Number, right: Number) -> Number:
    state = left.state or right.state
    kind = left.type if left.type == right.type else "float" if "float" in (left.type, right.type) else None
    if isinstance(op, ast.Div):
        kind = "float"
    fold = _FOLD.get(type(op))
    if fold is not None and left.const is not UNSET and right.const is not UNSET:
        try:
            const = fold(left.const, right.const)
        except Exception:  # whatever the user's constants do, the product is only not known
            return Number(state=state, type=kind)
        if not isinstance(const, (str, bytes, list, tuple)) or len(const) < 1000:
            return replace(number(const), state=state, soft=left.soft or right.soft)
    return Number(state=state, type=kind)


def elementwise(tensors: tuple[Tensor, ...], dtype: Dtype | None) -> Tensor:
    """The new tensor that an elementwise operation makes of these."""
    where = tensors[0].where
    ndim: int | None = 0
    for tensor in tensors:
        if tensor.where == "device":
            where = "device"
        elif tensor.where == "any" and where == "host":
            where = "any"
        ndim = None if ndim is None or tensor.ndim is None else max(ndim, tensor.ndim)
    return Tensor(
        where=where,
        dtype=dtype,
        ndim=ndim,
        step=any(tensor.step for tensor in tensors),
        fresh=True,
        sure=any(tensor.sure for tensor in tensors),
    )


def promote(a: Dtype | None, b: Dtype | None) -> Dtype | None:
    if a == b:
        return a
    if a is None or b is None:
        return "float" if "float" in (a, b) else None
    return "float" if "float" in (a, b) else "int"


def _unary(engine: Engine, frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        known = truth(engine, frame, node.operand, "not", node)
        return replace(known, const=not known.const, type="bool") if known is not None else BOOL
    value = evaluate(engine, frame, node.operand)
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


def _bool(engine: Engine, frame: Frame, node: ast.BoolOp) -> Value:
    """`a and b` as a value: all but the last are asked for their truth."""
    how = "and" if isinstance(node.op, ast.And) else "or"
    before = frame.env
    frame.env = dict(before)
    results: list[Value] = []
    for i, part in enumerate(node.values):
        if i == len(node.values) - 1:
            results.append(evaluate(engine, frame, part))
            break
        known = truth(engine, frame, part, how, node)
        value = _silent(engine, frame, part)
        if known is not None and known.soft is None and bool(known.const) is (how == "or"):
            results.append(value)
            break
        if not (type(value) is NoneValue and how == "or") and not (known is not None and known.soft is None):
            results.append(BOOL if as_tensor(value)[0] is not None and how == "and" else value)
        guards.narrow(engine, frame, frame.env, part, how == "and")
    frame.env = {**before, **{k: v for k, v in frame.env.items() if k not in before}} if frame.env != before else before
    return join_all(results) if results else UNKNOWN


def _silent(engine: Engine, frame: Frame, node: ast.expr) -> Value:
    hot, frame.hot = frame.hot, False
    value = evaluate(engine, frame, node)
    frame.hot = hot
    return value


def truth(engine: Engine, frame: Frame, node: ast.expr, how: str, whole: ast.AST) -> Number | None:
    """Evaluate `node` for its truth; a Number with a `const` where the host knows it."""
    if isinstance(node, ast.BoolOp):
        return _truth_of_parts(engine, frame, node, how)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        known = truth(engine, frame, node.operand, "not" if how == "not" else how, node)
        return replace(known, const=not known.const) if known is not None else None
    value = evaluate(engine, frame, node)
    tensor, certain = as_tensor(value)
    if tensor is not None and tensor.where != "host":
        engine.emit(frame, "Branch", how, node, confidence_of(tensor, certain), value=describe(value))
        return None
    use_number(engine, frame, value, "branch", node)
    return _known(value)


def _known(value: Value) -> Number | None:
    if type(value) is Number:
        return value if value.const is not UNSET else None
    if type(value) is NoneValue:
        return number(False)
    if type(value) is Sequence and value.items is not None:
        return number(bool(value.items)) if value.kind != "list" else None
    if type(value) in (Instance, Function, DeviceValue):
        return None
    return None


def _truth_of_parts(engine: Engine, frame: Frame, node: ast.BoolOp, how: str) -> Number | None:
    is_and = isinstance(node.op, ast.And)
    before = dict(frame.env)
    known: list[Number | None] = []
    depth = len(frame.guards)
    for part in node.values:
        value = truth(engine, frame, part, how, node)
        known.append(value)
        if value is not None and value.soft is None and bool(value.const) is not is_and:
            break
        verdict = guards.judge(engine, frame, part, value)
        if verdict.guarded is is_and:
            # `debug and t.any()`: what follows is asked only where captures do not go.
            frame.guards.append(verdict.text)
        guards.narrow(engine, frame, frame.env, part, is_and)
    del frame.guards[depth:]
    frame.env = {**frame.env, **before}
    decisive = [value for value in known if value is not None and bool(value.const) is not is_and]
    if decisive:
        hard = next((value for value in decisive if value.soft is None), decisive[0])
        return replace(hard, const=not is_and)
    if all(value is not None for value in known) and len(known) == len(node.values):
        soft = next((value.soft for value in known if value is not None and value.soft), None)
        return Number(is_and, soft=soft, type="bool")
    return None


def _compare(engine: Engine, frame: Frame, node: ast.Compare) -> Value:
    left = evaluate(engine, frame, node.left)
    result: Value = BOOL
    for i, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = evaluate(engine, frame, right_node)
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
    lt, l_certain = as_tensor(left)
    rt, r_certain = as_tensor(right)
    if lt is not None and rt is not None:
        return elementwise((lt, rt), "bool")
    if lt is not None or rt is not None:
        tensor, certain, other = (lt, l_certain, right) if lt is not None else (rt, r_certain, left)
        assert tensor is not None
        if type(other) is NoneValue:
            return BOOL
        use_number(engine, frame, other, "operand", node)
        mask = elementwise((tensor,), "bool")
        return mask if certain else Union_of(mask)
    if type(left) is Array or type(right) is Array:
        return ARRAY
    if type(left) is Number and type(right) is Number:
        state = left.state or right.state
        if left.const is not UNSET and right.const is not UNSET:
            try:
                const = bool(_COMPARE[type(op)](left.const, right.const))
            except Exception:
                return Number(state=state, type="bool")
            return Number(const, soft=left.soft or right.soft, state=state, type="bool")
        return Number(state=state, type="bool")
    if isinstance(op, (ast.Eq, ast.NotEq)) and type(left) is DeviceValue and type(right) is DeviceValue:
        return BOOL
    if type(left) is NoneValue or type(right) is NoneValue:
        return BOOL
    step = depends_on_step(left) or depends_on_step(right)
    device = (type(left) is Unknown and left.device) or (type(right) is Unknown and right.device)
    return Unknown(step, False) if device else BOOL


def Union_of(mask: Tensor) -> Value:
    return join(mask, BOOL)


def _identity(op: ast.cmpop, left: Value, right: Value) -> Value:
    if type(right) is NoneValue or type(left) is NoneValue:
        is_none = may_be_none(left if type(right) is NoneValue else right)
        if is_none is not None:
            return number(is_none if isinstance(op, ast.Is) else not is_none)
    if type(left) is Number and type(right) is Number and UNSET not in (left.const, right.const):
        same = left.const is right.const or (left.const == right.const and type(left.const) is type(right.const))
        return Number(same is isinstance(op, ast.Is), soft=left.soft or right.soft, type="bool")
    return BOOL


def _contains(engine: Engine, frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Value:
    tensor, certain = as_tensor(right)
    if tensor is not None:
        if tensor.where != "host":
            engine.emit(frame, "Branch", "in", node, confidence_of(tensor, certain), value=describe(right))
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
                (left.const in consts) is isinstance(op, ast.In), soft=left.soft, state=left.state, type="bool"
            )
    if type(left) is Number and left.state is not None:
        return Number(state=left.state, type="bool")
    return BOOL


def _conditional(engine: Engine, frame: Frame, node: ast.IfExp) -> Value:
    known = truth(engine, frame, node.test, "ifexp", node)
    verdict = guards.judge(engine, frame, node.test, known)
    before = frame.env
    results: list[Value] = []
    for branch, part in ((True, node.body), (False, node.orelse)):
        if verdict.dead is branch:
            continue
        frame.env = dict(before)
        guards.narrow(engine, frame, frame.env, node.test, branch)
        if verdict.guarded is branch:
            frame.guards.append(verdict.text)
        results.append(evaluate(engine, frame, part))
        if verdict.guarded is branch:
            frame.guards.pop()
    frame.env = before
    return join_all(results)


# containers


def _sequence(kind: str) -> Callable[[Engine, Frame, Any], Value]:
    def handler(engine: Engine, frame: Frame, node: ast.Tuple | ast.List | ast.Set) -> Value:
        items: list[Value] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                value = evaluate(engine, frame, item.value)
                if type(value) is Sequence and value.items is not None:
                    items.extend(value.items)
                else:
                    rest = join_all([*items, element(engine, value)])
                    for later in node.elts[node.elts.index(item) + 1 :]:
                        rest = join(
                            rest, evaluate(engine, frame, later.value if isinstance(later, ast.Starred) else later)
                        )
                    return of_elements(kind, rest)  # type: ignore[arg-type]
            else:
                items.append(evaluate(engine, frame, item))
        return sequence(kind, items)  # type: ignore[arg-type]

    return handler


def _dict(engine: Engine, frame: Frame, node: ast.Dict) -> Value:
    items: dict[Any, Value] = {}
    elem: Value | None = None
    for key, part in zip(node.keys, node.values, strict=True):
        value = evaluate(engine, frame, part)
        if key is None:
            if type(value) is Dict:
                items.update(value.items)
                value = value.elem
            else:
                value = Unknown(depends_on_step(value), holds_device(value))
        else:
            name = evaluate(engine, frame, key)
            if type(name) is Number and isinstance(name.const, (str, int, float, bool)):
                items[name.const] = value
        elem = value if elem is None else join(elem, value)
    return Dict(tuple(items.items())[:64], UNKNOWN if elem is None else elem)


def element(engine: Engine, value: Value) -> Value:
    """What iterating over a value gives."""
    found: list[Value] = []
    for option in options(value):
        if isinstance(option, Sequence):
            found.append(option.elem)
        elif isinstance(option, Tensor):
            ndim = option.ndim - 1 if option.ndim is not None and option.ndim > 0 else None
            found.append(replace(option, ndim=ndim, fresh=False, name=None))
        elif isinstance(option, Dict):
            keys = [number(key) for key, _ in option.items]
            found.append(join_all(keys) if keys else UNKNOWN)
        elif isinstance(option, Array):
            found.append(NUMBER)
        elif isinstance(option, Number):
            found.append(STR)
        elif isinstance(option, Unknown):
            found.append(option)
        else:
            found.append(UNKNOWN)
    return join_all(found) if found else UNKNOWN


def _comprehension(kind: str) -> Callable[[Engine, Frame, Any], Value]:
    def handler(engine: Engine, frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        before = frame.env
        frame.env = dict(before)
        known = _generators(engine, frame, node.generators)
        if known is not None:
            items = []
            for item in known:
                _bind(engine, frame, node.generators[0].target, item)
                items.append(evaluate(engine, frame, node.elt))
            result: Value = sequence(kind, items)  # type: ignore[arg-type]
        else:
            result = of_elements(kind, evaluate(engine, frame, node.elt))  # type: ignore[arg-type]
        frame.env = before
        return result

    return handler


def _generators(engine: Engine, frame: Frame, generators: list[ast.comprehension]) -> tuple[Value, ...] | None:
    """Bind the targets; the items themselves where there is one plain loop over a few known ones."""
    items: tuple[Value, ...] | None = None
    for generator in generators:
        iterable = evaluate(engine, frame, generator.iter)
        if (
            len(generators) == 1
            and not generator.ifs
            and type(iterable) is Sequence
            and iterable.items
            and len(iterable.items) <= 8
        ):
            items = iterable.items
        _bind(engine, frame, generator.target, element(engine, iterable))
        for condition in generator.ifs:
            truth(engine, frame, condition, "if", condition)
            guards.narrow(engine, frame, frame.env, condition, True)
    return items


def _bind(engine: Engine, frame: Frame, target: ast.expr, value: Value) -> None:
    from graphsafe.scan.statements import assign

    assign(engine, frame, target, value, target)


def _dict_comprehension(engine: Engine, frame: Frame, node: ast.DictComp) -> Value:
    before = frame.env
    frame.env = dict(before)
    _generators(engine, frame, node.generators)
    evaluate(engine, frame, node.key)
    result = Dict((), evaluate(engine, frame, node.value))
    frame.env = before
    return result


# text


def _joined_string(engine: Engine, frame: Frame, node: ast.JoinedStr) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            _formatted(engine, frame, node, evaluate(engine, frame, part.value), part.value)
    first = node.values[0] if node.values else None
    if isinstance(first, ast.Constant) and str(first.value).startswith("cuda"):
        return DeviceValue("device")
    return STR


def _formatted(engine: Engine, frame: Frame, node: ast.AST, value: Value, part: ast.expr | None = None) -> None:
    for item in value.items or (value.elem,) if type(value) is Sequence else (value,):
        tensor, certain = as_tensor(item)
        if tensor is not None and tensor.where != "host":
            words = {"value": describe(item)}
            engine.emit(frame, "HostRead", "format", node, confidence_of(tensor, certain), None, **words)


# the rest


def _call(engine: Engine, frame: Frame, node: ast.Call) -> Value:
    return calls.call(engine, frame, node)


def _lambda(engine: Engine, frame: Frame, node: ast.Lambda) -> Value:
    return engine.nested(frame, node, f"<lambda>:{node.lineno}")


def _named(engine: Engine, frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(engine, frame, node.value)
    _bind(engine, frame, node.target, value)
    return value


def _inner(engine: Engine, frame: Frame, node: ast.Await | ast.Starred) -> Value:
    return evaluate(engine, frame, node.value)


def _yield(engine: Engine, frame: Frame, node: ast.Yield) -> Value:
    if node.value is not None:
        frame.yields.append(evaluate(engine, frame, node.value))
    else:
        frame.yields.append(UNKNOWN)
    return UNKNOWN


def _yield_from(engine: Engine, frame: Frame, node: ast.YieldFrom) -> Value:
    frame.yields.append(element(engine, evaluate(engine, frame, node.value)))
    return UNKNOWN


def _slice(engine: Engine, frame: Frame, node: ast.Slice) -> Value:
    for bound in (node.lower, node.upper, node.step):
        if bound is not None:
            evaluate(engine, frame, bound)
    return UNKNOWN


_HANDLERS: dict[type[ast.expr], Callable[[Engine, Frame, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: _sequence("tuple"),
    ast.List: _sequence("list"),
    ast.Set: _sequence("set"),
    ast.Dict: _dict,
    ast.ListComp: _comprehension("list"),
    ast.SetComp: _comprehension("set"),
    ast.GeneratorExp: _comprehension("iterator"),
    ast.DictComp: _dict_comprehension,
    ast.JoinedStr: _joined_string,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Await: _inner,
    ast.Starred: _inner,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Subscript: subscript,
    ast.Slice: _slice,
}
