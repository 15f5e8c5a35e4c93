"""Python's builtins: casts, comparisons, iteration, attributes by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from graphsafe.scan.domain.arguments import Arguments, unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import element_of, join, join_all, sequence
from graphsafe.scan.domain.numbers import const_of, folded
from graphsafe.scan.domain.values import (
    BOOL,
    INT,
    NONE,
    NUMBER,
    SIZE,
    UNKNOWN,
    UNSET,
    ClassValue,
    Dict,
    Function,
    Instance,
    Lib,
    NoneValue,
    Number,
    RuntimeObject,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
    describe,
    holds_device,
    number,
    of_elements,
    options,
)
from graphsafe.scan.domain.widening import MAX_ITEMS
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import protocols, spelled_out, type_tests
from graphsafe.scan.state import own_changes, writes
from graphsafe.scan.symbols.index import dotted, name_made_by

SLICE = RuntimeObject("slice")

Handler = Callable[["Frame", ast.Call, "Arguments"], Value]


def cast(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    name = node.func.id if isinstance(node.func, ast.Name) else "index"
    for value in arguments.positional:
        if protocols.called(frame, node, value, f"__{name}__", "__index__", "__len__") is not None:
            return NUMBER
        frame.emit_if_on_device("HostRead", "cast", node, value)
        if as_tensor(value)[0] is not None:
            return NUMBER
    if len(arguments.positional) == 1 and type(arguments.positional[0]) is Number:
        return _cast_number(arguments.positional[0], node)
    return Number(state=unknown_result(arguments).state)


def size_of(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Read `torch.Size(shape)`. `torch.Size` converts each element to an integer, so the host waits for the elements of
    a tensor."""
    cast(frame, node, arguments)
    return SIZE


def _cast_number(value: Number, node: ast.Call) -> Number:
    casts: dict[str, Any] = {"int": int, "float": float, "bool": bool}
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in casts:
        if value.const is not UNSET:
            try:
                return replace(value, const=casts[name](value.const), type=name)  # type: ignore[arg-type]
            except (TypeError, ValueError, OverflowError):
                pass
        return Number(overridable_by=value.overridable_by, state=value.state, type=name)  # type: ignore[arg-type]
    return Number(state=value.state)


def len_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.first
    if type(value) is Sequence and value.items is not None and value.kind == "tuple":
        return number(len(value.items))
    length = protocols.called(frame, node, value, "__len__")
    return INT if length is None else length


def branching(how: str) -> Handler:
    def handler(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
        key = protocols.key_called(frame, node, arguments)
        if key is not None:
            ordered(frame, node, of_elements("list", key), how)
            items = protocols.candidates(arguments)
            return of_elements("list", items) if how == "sorted" else items
        return ordered(frame, node, arguments.positional[0] if len(arguments.positional) == 1 else arguments, how)

    return handler


def ordered(frame: Frame, node: ast.Call, values: Value | Arguments, how: str) -> Value:
    """Emit a branch for `max`, `min`, `any`, `all` or `sorted`: the host compares the values or tests their truth."""
    if hasattr(values, "positional"):
        item = join_all(values.positional)
        several = True
        # One operand that is certainly a tensor is enough: `max(self.worst, x.amax())`, where `self.worst` is 0.0 at
        # first.
        known = next((value for value in values.positional if type(value) is Tensor and value.where != "host"), item)
    else:
        item = known = element_of(values)
        single = type(values) is Sequence and values.items is not None and len(values.items) < 2
        several = not single or how in ("any", "all", "filter")
    if several and type(item) is Instance:
        # The host tests the truth of the comparison's result.
        known = protocols.called(frame, node, item, "__lt__", "__gt__", arguments=Arguments((item,))) or item
    if several and frame.emit_if_on_device("Branch", how, node, known):
        for value in values.positional if hasattr(values, "positional") else ():
            frame.use_number(value, "operand", node)
    if how in ("any", "all"):
        return BOOL
    if how == "sorted":
        return of_elements("list", item)
    is_tensor = as_tensor(known)[0] is not None
    if not is_tensor and type(item) is Number:
        return replace(item, const=UNSET)
    if is_tensor and type(item) is Union:
        # The result may be the number or the tensor.
        return join_all(replace(option, certain=False) if type(option) is Tensor else option for option in item.options)
    return item


def placed_in(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Emit a branch for `bisect` or `heapq`, which compare an item with the items of a list."""
    if len(arguments.positional) > 1:
        held, item = element_of(arguments.positional[0]), arguments.positional[1]
        ordered(frame, node, Arguments((held, item)), "compare")
    return INT


def asserted(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Emit a branch for `torch._assert(condition, message)`, which tests the condition as an `assert` statement
    does."""
    condition = arguments.get(0, "condition") or UNKNOWN
    frame.emit_if_on_device("Branch", "assert", node, protocols.truth(frame, node, condition), describe(condition))
    return NONE


def hash_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    protocols.hashed(frame, node, arguments.get(0, "obj") or UNKNOWN)
    return INT


def sum_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    item = element_of(arguments.positional[0]) if arguments.positional else UNKNOWN
    start = arguments.get(1, "start")
    made = _computed(start if start is not None and as_tensor(item)[0] is None and as_tensor(start)[0] else item)
    return replace(made, name=None) if type(made) is Tensor else made


def _computed(value: Value) -> Value:
    """Return a new value of the same kind."""
    tensor, _ = as_tensor(value)
    if tensor is not None:
        return replace(tensor, fresh=True, attr=None)
    return replace(value, const=UNSET) if type(value) is Number else value


def abs_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.first
    name = node.func.id if isinstance(node.func, ast.Name) else "abs"
    made = protocols.called(frame, node, value, f"__{name}__") if as_tensor(value)[0] is None else None
    return _computed(value) if made is None else made


def divmod_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the pair of quotient and remainder, which are device tensors if an argument is one."""
    known = next((value for value in arguments.positional if as_tensor(value)[0] is not None), UNKNOWN)
    return sequence("tuple", (_computed(known), _computed(known)))


def range_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    for value in arguments.positional:
        frame.emit_if_on_device("Extent", "range", node, value)
    return of_elements("iterator", INT)


def enumerate_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.first
    start = arguments.get(1, "start") or (INT if arguments.further else number(0))
    frame.emit_if_on_device("HostRead", "cast", node, start)
    if type(value) is Sequence and value.items is not None:
        counts = [
            folded(ast.Add(), start, number(i)) if type(start) is Number else INT for i in range(len(value.items))
        ]
        return sequence("iterator", [sequence("tuple", pair) for pair in zip(counts, value.items, strict=True)])
    return of_elements("iterator", sequence("tuple", (INT, element_of(value))))


def zip_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if arguments.further:
        return of_elements("iterator", of_elements("tuple", join_all(element_of(v) for v in arguments.positional)))
    return of_elements("iterator", sequence("tuple", [element_of(value) for value in arguments.positional]))


def listed(kind: str) -> Handler:
    def handler(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
        if not arguments.positional:
            return sequence(kind, ())  # type: ignore[arg-type]
        value = arguments.positional[0]
        if type(value) is Sequence:
            return replace(value, kind=kind, held_by=None)  # type: ignore[arg-type]
        return of_elements(kind, element_of(value))  # type: ignore[arg-type]

    return handler


def dict_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    base = arguments.positional[0] if arguments.positional else None
    items = dict(base.items) if type(base) is Dict else {}
    items.update(arguments.keywords)
    if base is not None and type(base) is not Dict:
        # `dict(group, params=[])` may have any other keys.
        return Dict(tuple(items.items())[:64], UNKNOWN if items else _second(base))
    elem = join_all(items.values()) if items else base.elem if base is not None else UNKNOWN
    return Dict(tuple(items.items())[:64], elem)


def _second(pairs: Value) -> Value:
    """Return the second element of the pairs in an iterator: the parameters for `net.named_parameters()`."""
    pair = pairs.elem if type(pairs) is Sequence and pairs.kind == "iterator" else None
    return pair.items[1] if type(pair) is Sequence and pair.items is not None and len(pair.items) == 2 else UNKNOWN


def defaultdict(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return an empty dict. Entries of a `defaultdict(list)` are lists of unknown length."""
    entry = frame.call_value(node, arguments.first, Arguments())
    return Dict((), of_elements(entry.kind, entry.elem) if type(entry) is Sequence else UNKNOWN)


def namespace(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return a `SimpleNamespace` as a dict that contains only its functions. Its other fields are unknown, because code
    may assign them later."""
    functions = {name: value for name, value in arguments.keywords.items() if type(value) is Function}
    return Dict(tuple(functions.items())[:64], UNKNOWN) if functions else UNKNOWN


def isinstance_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if len(node.args) == 2 and arguments.positional:
        known = type_tests.is_instance(frame, arguments.positional[0], node.args[1])
        if known is not None:
            return number(known)
    return BOOL


def getattr_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if len(arguments.positional) < 2:
        return UNKNOWN
    owner, name = arguments.positional[:2]
    asked = const_of(name)
    if not isinstance(asked, str):
        asked = name_made_by(node.args[1]) if len(node.args) > 1 else None
        if asked is None or not all(_assigns(frame, option, asked) for option in options(owner)):
            return _one_of_fields(frame, node, owner)
    base = dotted(node.args[0])
    text = f"{base}.{asked}" if base else None
    found = join_all(frame.attribute(node, option, asked, text) for option in options(owner))
    if len(arguments.positional) > 2:
        default = arguments.positional[2]
        return default if type(found) is Unknown and const_of(default) is False else join(found, default)
    return found


def _assigns(frame: Frame, owner: Value, name: str) -> bool:
    """Return whether an object's class assigns attributes whose names have this form, such as `table*`."""
    if type(owner) is not Instance:
        return False
    return any(name in facts.writers for _, facts in frame.project.own_classes(owner.ref))


def _one_of_fields(frame: Frame, node: ast.Call, owner: Value) -> Value:
    """Return the value of `getattr(self, f.name)` in a dataclass: the join of all fields, if all of them are tensors or
    numbers."""
    unknown = Unknown(depends_on_step(owner), holds_device(owner))
    facts = frame.project.class_facts(owner.ref) if type(owner) is Instance else None
    if facts is None or not facts.fields or not any("dataclass" in decorator for decorator in facts.decorators):
        return unknown
    values = [frame.attribute(node, owner, field, None) for field in facts.fields]
    held = join_all(values)
    return held if as_tensor(held)[1] else unknown


def vars_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the dict of a plain object's attributes. If the constructor has made a tensor for an attribute, the dict
    contains this tensor, because the calling method may be the one that moves all tensors."""
    owner = arguments.first
    if type(owner) is not Instance or frame.attributes.is_module(owner.ref):
        return UNKNOWN
    classes = frame.project.own_classes(owner.ref)
    names = {name for _, facts in classes for name in facts.writers if name.isidentifier()}
    begun = {name: frame.attributes.initial(owner, name) for name in sorted(names)}
    read = (made if type(made) is Tensor else frame.attribute(node, owner, name, None) for name, made in begun.items())
    held = join_all(read) if names else UNKNOWN
    return Dict((), held)


def setattr_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if len(arguments.positional) == 3:
        owner, name, value = arguments.positional
        named = const_of(name) if isinstance(const_of(name), str) else None
        if named is None and not frame.hot and len(node.args) > 1:
            named = name_made_by(node.args[1])
        writes.set_attribute(frame, node, owner, named, value)
    return NONE


def map_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if len(arguments.positional) < 2:
        return UNKNOWN
    function, *iterables = arguments.positional
    casts = type(function) is Lib and function.name in ("builtins.int", "builtins.float", "builtins.bool")

    def mapped(*items: Value) -> Value:
        given = replace(arguments, positional=items, keywords={})
        return cast(frame, node, given) if casts else frame.call_value(node, function, given)

    known = [value.items for value in iterables if type(value) is Sequence and value.items is not None]
    if len(known) == len(iterables) and all(0 < len(items) <= MAX_ITEMS for items in known):
        return sequence("iterator", [mapped(*items) for items in zip(*known, strict=False)])
    return of_elements("iterator", mapped(*map(element_of, iterables)))


def filter_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if len(arguments.positional) < 2:
        return UNKNOWN
    if type(arguments.positional[0]) is NoneValue:
        ordered(frame, node, arguments.positional[1], "filter")
        return of_elements("iterator", element_of(arguments.positional[1]))
    return spelled_out.chosen(frame, node, arguments)


def next_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if not arguments.positional:
        return UNKNOWN
    own_changes.advanced(frame, node, arguments.positional[0])
    item = protocols.called(frame, node, arguments.positional[0], "__next__")
    if item is None:
        item = element_of(arguments.positional[0])
    return join(item, arguments.positional[1]) if len(arguments.positional) > 1 else item


def type_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.first
    return ClassValue(value.ref) if type(value) is Instance else UNKNOWN
