"""Methods of lists, dicts and strings; calls of cached functions."""

from __future__ import annotations

import ast
from contextlib import suppress

from graphsafe.scan.domain.arguments import Arguments, Call
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import held_in, kept, not_held
from graphsafe.scan.domain.joins import element_of, join, sequence
from graphsafe.scan.domain.numbers import const_of, entry
from graphsafe.scan.domain.values import (
    BOOL,
    INT,
    NONE,
    NUMBER,
    STR,
    UNKNOWN,
    UNSET,
    DeviceValue,
    Dict,
    Function,
    Instance,
    Number,
    Sequence,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
    holds_device,
    number,
    of_elements,
    options,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import formatting, module_methods, named_tuples
from graphsafe.scan.models.functions import builtin_functions
from graphsafe.scan.state import own_changes, writes
from graphsafe.scan.state.cached_entries import may_drop_results
from graphsafe.scan.symbols.index import dotted


def method(frame: Frame, node: ast.Call, receiver: Value, name: str, arguments: Arguments) -> Value:
    if (type(receiver) is Sequence or type(receiver) is Dict) and module_methods.holds_modules(frame, receiver):
        made = module_methods.of_module(frame, node, receiver, name, arguments)
        if made is not None:
            return made
    if type(receiver) is Sequence or type(receiver) is Dict:
        own_changes.container_changed(frame, node, receiver, name)
    if type(receiver) is Sequence:
        return _of_sequence(frame, node, receiver, name, arguments)
    if type(receiver) is Dict:
        return _of_dict(frame, node, receiver, name, arguments)
    assert type(receiver) is Number
    return _of_text(frame, node, receiver, name, arguments)


def _of_sequence(frame: Frame, node: ast.Call, receiver: Sequence, name: str, arguments: Arguments) -> Value:
    if name in ("append", "extend", "insert", "add", "appendleft"):
        added = arguments.positional[-1] if arguments.positional else UNKNOWN
        if name == "extend":
            added = element_of(added)
        elem = added if receiver.items == () else join(receiver.elem, added)
        is_short = name == "append" and receiver.items is not None and len(receiver.items) < 64
        items = (*receiver.items, added) if is_short and receiver.items is not None else None
        _put_back(frame, node, Sequence(receiver.kind, items, elem, receiver.held_by), added)
        return NONE
    if name in ("pop", "popleft"):
        elem = receiver.elem
        return replace(elem, state=(receiver.held_by,)) if type(elem) is Unknown and receiver.held_by else elem
    if name in ("index", "count"):
        frame.emit_if_on_device("Branch", "in", node, receiver.elem, "a list of device tensors")
        return INT
    if name == "numel":
        return INT
    if name in ("copy", "union", "intersection", "difference"):
        return not_held(receiver)
    if name == "sort":
        builtin_functions.ordered(frame, node, receiver, "sorted")
        return NONE
    if name in ("keys", "values", "items"):
        return receiver
    changed = named_tuples.method(receiver, name, arguments)
    return UNKNOWN if changed is None else changed


def _of_dict(frame: Frame, node: ast.Call, receiver: Dict, name: str, arguments: Arguments) -> Value:
    if name in ("get", "pop", "setdefault"):
        return _looked_up(receiver, name, arguments)
    if name == "update":
        _update(frame, node, receiver, arguments)
        return NONE
    keys = [number(key) for key, _ in receiver.items]
    if name == "items":
        if not keys:
            return of_elements("list", sequence("tuple", (UNKNOWN, receiver.elem)))
        pairs = zip(keys, dict(receiver.items).values(), strict=True)
        return sequence("list", [sequence("tuple", pair) for pair in pairs])
    if name == "values":
        return of_elements("list", receiver.elem)
    if name == "keys":
        return sequence("list", keys) if keys else of_elements("list", UNKNOWN)
    if name == "copy":
        return not_held(receiver)
    held = dict(receiver.items).get(name)
    return frame.call_value(node, held, arguments) if type(held) is Function else UNKNOWN


def _looked_up(receiver: Dict, name: str, arguments: Arguments) -> Value:
    """Return the result of `get`, `pop` or `setdefault`: the entry, or the default."""
    key, default = arguments.get(0, "key"), arguments.get(1, "default")
    known = dict(receiver.items)
    found: Value = receiver.elem
    const = const_of(key)
    if const is not UNSET and known:
        # If the source does not show this entry, its value is unknown: other entries give no information about it.
        found = known[const] if const in known else Unknown(depends_on_step(found), holds_device(found))
    if name == "setdefault" and default is not None:
        if (
            type(found) is Unknown
            and type(default) is Sequence
            and default.items == ()
            and receiver.held_by is not None
        ):
            # An earlier step may have put a list under this key, so the list's length is not known.
            return held_in(of_elements(default.kind, found), entry(receiver.held_by, const))
        return join(found, kept(default))
    return found if default is None and name == "pop" else join(found, default if default is not None else NONE)


def _update(frame: Frame, node: ast.Call, receiver: Dict, arguments: Arguments) -> None:
    other = arguments.first
    added: Value = other.elem if type(other) is Dict else Unknown(depends_on_step(other))
    items = dict(receiver.items)
    if type(other) is Dict:
        items.update(other.items)
    for name, value in arguments.keywords.items():
        added = join(added, value)
        items[name] = value if receiver.held_by is None else held_in(value, entry(receiver.held_by, name))
    _write_entries(frame, node, receiver)
    elem = join(receiver.elem, added) if receiver.items else added
    _put_back(frame, node, Dict(tuple(items.items())[:64], elem, receiver.held_by), added)


def _write_entries(frame: Frame, node: ast.Call, receiver: Dict) -> None:
    """Record the entries that `self.state.update(h=h)` replaces, as assignments to `self.state['h']`."""
    if not frame.hot or receiver.held_by is None or not isinstance(node.func, ast.Attribute):
        return
    holder, held = node.func.value, receiver
    owner = frame.evaluate_quietly(holder.value) if isinstance(holder, ast.Attribute) else None
    if isinstance(holder, ast.Attribute) and type(owner) is Instance:
        # The dict also contains entries that steps put into it.
        initial = frame.attributes.initial(owner, holder.attr)
        held = initial if type(initial) is Dict else Dict((), UNKNOWN)
    before = dict(held.items)
    for name, written in writes.parts(frame, receiver, node.args[0] if node.args else node):
        key, text = entry(receiver.held_by, name), f"{ast.unparse(holder)}[{name!r}]"
        writes.write(frame, key, text, frame.evaluate_quietly(written), before.get(name), written, written)


def _of_text(frame: Frame, node: ast.Call, receiver: Number, name: str, arguments: Arguments) -> Value:
    if name == "format":
        formatting.format_values(frame, node, arguments.values())
        return STR
    if name in ("startswith", "endswith", "isdigit", "isalpha"):
        asked = arguments.first
        if isinstance(receiver.const, str) and type(asked) is Number:
            with suppress(Exception):  # the user's constants may raise any error
                return replace(receiver, const=bool(getattr(receiver.const, name)(asked.const)), type="bool")
        return BOOL
    if name == "get" and receiver.overridable_by == "environment":
        return receiver
    if name in ("lower", "upper", "strip") and isinstance(receiver.const, str):
        return replace(receiver, const=getattr(receiver.const, name)())
    if name in ("split", "rsplit", "splitlines", "partition"):
        return of_elements("list", STR)
    return replace(receiver, const=UNSET, type=None) if receiver.state or receiver.overridable_by else NUMBER


def _put_back(frame: Frame, node: ast.Call, updated: Value, added: Value) -> None:
    """After a call that changed a container, bind the container's name or attribute to the changed value."""
    function = node.func
    if not isinstance(function, ast.Attribute):
        return
    holder = function.value
    if isinstance(holder, ast.Name):
        if holder.id in frame.env:
            frame.env[holder.id] = updated
        return
    lengthens = frame.hot and function.attr in ("append", "appendleft", "extend", "insert")
    if not isinstance(holder, ast.Attribute):
        if lengthens and type(updated) is Sequence and updated.held_by is not None:
            own_changes.lengthened(frame, node, updated.held_by, ast.unparse(holder), added)
        return
    owner = frame.evaluate(holder.value)
    if type(owner) is not Instance:
        return
    if not frame.hot:
        frame.attributes.record(owner.ref, holder.attr, updated)
    elif lengthens:
        key = frame.attributes.key(owner.ref, holder.attr)
        own_changes.lengthened(frame, node, key, dotted(holder) or holder.attr, added)


def cached_call(frame: Frame, node: ast.Call, function: Function, arguments: Arguments) -> None:
    """Emit an event for a call of an `lru_cache` function that returns a device tensor. The cache keeps this tensor
    from the first step on."""
    value = frame.engine.read(Call(function.ref, function.bound, arguments, depth=1, level=frame.level))
    is_tensor = as_tensor(value)[1] and not _is_one_entry(arguments)
    if is_tensor and may_drop_results(frame.engine, function.ref):
        frame.emit_if_on_device("AttrWrite", "cached", node, value, f"`{function.ref.rpartition('::')[2]}`")


def _is_one_entry(arguments: Arguments) -> bool:
    """Return whether the key of a cache consists only of a device and constants. A process has one device, so such a
    cache has one entry."""
    values = [option for value in arguments.values() for option in options(value)]
    return any(type(value) is DeviceValue for value in values) and all(
        type(value) is DeviceValue or const_of(value) is not UNSET for value in values
    )
