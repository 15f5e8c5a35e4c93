"""Lists the contents of an object: its values, and the objects to visit next. Each kind of object has a handler."""

from __future__ import annotations

import enum
import functools
import gc
import itertools
import operator
import queue
import types
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch

from graphsafe.capture.child.state.containers import (
    CELL,
    CONTEXT,
    MISSING,
    OPAQUE,
    OVER_SEQUENCES,
    WEAK_TABLES,
    Slot,
    count_from,
    count_text,
    position_of,
    referent_of,
)
from graphsafe.capture.child.state.generators import is_host_generator
from graphsafe.capture.child.state.modules import each_hook, take_module, take_script_module
from graphsafe.capture.child.state.objects import (
    attributes_of,
    bases_of,
    cached_per_class,
    holds_state,
    holds_tensor,
    is_torch_data,
    layout_of,
    module_name,
    names_in,
)
from graphsafe.capture.child.state.tensors import is_in_parts
from graphsafe.capture.child.state.values import SCALARS, are_scalars, digest, text_of
from graphsafe.capture.child.state.walk import (
    Handler,
    Item,
    ObjectWalk,
    below,
    elements_of,
    in_order,
    objects_among_keys,
    stored_in,
    variables_in,
)
from graphsafe.capture.shared.frames import is_user_file

_LONG = 1_000
"If a container has more numbers and strings than this, a single digest of them is compared."


_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


@cached_per_class
def handler_of(kind: type) -> Handler | None:
    """Return the handler of a class; None if its objects are not visited."""
    for base, handler in (
        (enum.Enum, _take_value(_member_text)),
        # these handlers see only instances of subclasses; `enqueue` has already taken instances of Python's own classes
        (SCALARS, _take_value(text_of)),
        (torch.Tensor, _take_tensor),
        (type, _take_class),
        (torch._C.Generator, _take_generator),
        (torch.jit.ScriptModule, take_script_module),
        (torch.nn.Module, take_module),
        ((torch.dtype, torch.device, torch.layout, torch.memory_format, range), _take_value(repr)),
        (dict, _take_dict),
        ((list, tuple, deque), _take_sequence),
        ((set, frozenset), _take_set),
        ((bytearray, array), _take_bytes),
        (types.MethodType, _take_method),
        (types.FunctionType, _take_function),
        (functools.partial, _take_partial),
        (functools._lru_cache_wrapper, _take_cache),
        (WEAK_TABLES, _take_other(operator.attrgetter("data"))),
        ((weakref.ReferenceType, weakref.ProxyType, weakref.CallableProxyType), _take_other(referent_of)),
        (ContextVar, _take_context_variable),
        (_VIEWS, _take_other(lambda view: gc.get_referents(view)[0])),
        (types.MappingProxyType, _take_proxy),
    ):
        if issubclass(kind, base):
            return handler
    if is_host_generator(kind):
        return _take_host_generator
    if kind is itertools.count:
        return _take_count
    if kind in OVER_SEQUENCES:
        return _take_iterator
    if kind is itertools.repeat:
        return _take_repeat
    if kind is queue.SimpleQueue:
        return _take_queue
    if kind in OPAQUE:
        return lambda walk, path, value: walk.reach.opaque.append(path)
    numpy_kind = next((base.__name__ for base in bases_of(kind) if module_name(base) == "numpy"), None)
    if numpy_kind is not None:
        return _take_array if any(base.__name__ == "ndarray" for base in bases_of(kind)) else _take_numpy_scalar
    if holds_state(kind):
        return _take_object
    return _take_torch_data if is_torch_data(kind) else None


def _take_value(text: Callable[[Any], str]) -> Handler:
    """Return the handler of small values, which `text` turns into strings. One object may have several holders (a
    member of an enumeration), so it is visited again at each holder."""

    def take(walk: ObjectWalk, path: str, value: Any) -> None:
        walk.reach.hosts[path] = text(value)
        walk.reach.values[path] = value
        walk.forget(value)

    return take


def _take_other(read: Callable[[Any], Any]) -> Handler:
    """Return the handler of objects that stand for another object, which `read` returns."""
    return lambda walk, path, value: walk.enqueue([(path, read(value), None, None)])


def _member_text(value: Any) -> str:
    name = (attributes_of(value) or {}).get("_name_")
    return f"{type(value).__name__}.{name if type(name) is str else '?'}"


_TENSOR_HOOKS: list[tuple[str, Any]] = [
    (name, getattr(torch.Tensor, name).__get__)
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks")
    if hasattr(torch.Tensor, name)
]


def _take_tensor(walk: ObjectWalk, path: str, value: Any) -> None:
    walk.take_tensor(path, value)
    kind: Any = torch.Tensor
    if not is_in_parts(type(value)):
        _take_attributes(walk, path, value)
    for name, read in _TENSOR_HOOKS:
        if hooks := read(value):
            walk.later(each_hook(f"{below(path)}{name}", hooks))
    if not kind.is_leaf.__get__(value):
        return
    grad = kind.grad.__get__(value)
    if grad is not None:
        walk.enqueue([(f"{path}.grad", grad, None, None)])
    if grad is not None or kind.requires_grad.__get__(value):
        walk.reach.containers.append(Slot(value, kind.grad))


def _take_class(walk: ObjectWalk, path: str, value: Any) -> None:
    walk.forget(value)
    walk.take_class(path, value)
    walk.take_class(path, type(value))


def _take_generator(walk: ObjectWalk, path: str, value: Any) -> None:
    walk.reach.generators[path] = value


def _take_host_generator(walk: ObjectWalk, path: str, value: Any) -> None:
    walk.reach.host_generators[path] = value


def _take_attributes(walk: ObjectWalk, path: str, value: Any) -> None:
    _note_places(walk, value)
    walk.enqueue(stored_in(path, value))


def _take_dict(walk: ObjectWalk, path: str, value: Any) -> None:
    _take_attributes(walk, path, value)
    walk.reach.lengths[path] = dict.__len__(value)
    walk.reach.sized[path] = value
    walk.reach.containers.append(value)
    if dict.__len__(value) > _LONG and are_scalars(dict.values(value)) and are_scalars(dict.keys(value)):
        walk.reach.hosts[path] = digest(dict.__repr__(value))
        return
    walk.enqueue(elements_of(path, value))
    if not are_scalars(dict.keys(value)):
        walk.later(objects_among_keys(path, value))


def _take_sequence(walk: ObjectWalk, path: str, value: Any) -> None:
    base: Any = next(base for base in (list, tuple, deque) if issubclass(type(value), base))
    if base is tuple:
        walk.reach.tuples[path] = value
    else:
        _take_attributes(walk, path, value)
        walk.reach.sized[path] = value
        walk.reach.containers.append(value)
    length = walk.reach.lengths[path] = base.__len__(value)
    if length > _LONG and are_scalars(list(base.__iter__(value))):
        walk.reach.hosts[path] = digest(repr(list(base.__iter__(value))))
    else:
        walk.enqueue(elements_of(path, value))


def _take_set(walk: ObjectWalk, path: str, value: Any) -> None:
    base: Any = set if issubclass(type(value), set) else frozenset
    walk.reach.lengths[path] = base.__len__(value)
    walk.reach.sized[path] = value
    if base is set:
        walk.reach.containers.append(value)
    elements = list(base.__iter__(value))
    if are_scalars(elements):
        walk.reach.hosts[path] = digest(",".join(sorted(map(text_of, elements))))
    else:
        walk.last(_in_order(path, elements))


def _in_order(path: str, elements: list[Any]) -> Iterator[Item]:
    ordered, _ = in_order(elements, handler_of)
    for index, element in enumerate(ordered):
        yield f"{path}[#{index}]", element, None, None


def _take_bytes(walk: ObjectWalk, path: str, value: Any) -> None:
    walk.reach.containers.append(value)
    walk.reach.hosts[path] = digest(bytes(memoryview(value)))


def _take_array(walk: ObjectWalk, path: str, value: Any) -> None:
    import numpy

    if numpy.ndarray.dtype.__get__(value).hasobject:
        walk.enqueue([(path, numpy.ndarray.tolist(value), None, None)])
        return
    writeable = _writeable(value)
    if writeable is not None:
        walk.reach.containers.append(writeable)
    walk.reach.hosts[path] = digest(numpy.ndarray.tobytes(value))


def _writeable(array: Any) -> Any:
    """Return the array if it can be written, else the nearest writeable array of which it is a view. Return None if
    there is none, as for a file mapped read-only: nobody writes it, and a copy of it may take gigabytes."""
    import numpy

    while issubclass(type(array), numpy.ndarray):
        if numpy.ndarray.flags.__get__(array).writeable:
            return array
        array = numpy.ndarray.base.__get__(array)
    return None


def _take_numpy_scalar(walk: ObjectWalk, path: str, value: Any) -> None:
    tobytes = getattr(value, "tobytes", None)
    if tobytes is not None:
        walk.reach.hosts[path] = repr(value) if value.nbytes <= 16 else digest(tobytes())
        walk.reach.values[path] = value


def _take_count(walk: ObjectWalk, path: str, value: Any) -> None:
    text = count_text(value)
    if text is None:
        walk.reach.opaque.append(path)
        return
    walk.reach.hosts[path] = text
    walk.reach.values[path] = count_from(text)


def _take_iterator(walk: ObjectWalk, path: str, value: Any) -> None:
    position = position_of(value)
    walk.reach.hosts[path] = "an iterator at its end" if position is None else f"an iterator at {position}"
    walk.reach.containers.append(value)


def _take_queue(walk: ObjectWalk, path: str, value: Any) -> None:
    """Note only the size. The elements cannot be put back without waking the threads that wait for them."""
    walk.reach.opaque.append(path)
    walk.reach.lengths[path] = value.qsize()
    if holds_tensor(value):
        walk.reach.queues[path] = value.qsize()


def _take_repeat(walk: ObjectWalk, path: str, value: Any) -> None:
    """Visit the single object that an `itertools.repeat` yields again and again."""
    walk.reach.opaque.append(path)
    walk.enqueue((path, item, None, None) for item in gc.get_referents(value))


def _take_partial(walk: ObjectWalk, path: str, value: Any) -> None:
    dot = below(path)
    read = functools.partial.__dict__
    for name in ("func", "args", "keywords"):
        walk.enqueue([(f"{dot}{name}", read[name].__get__(value), None, None)])
    walk.enqueue(stored_in(path, value))


def _take_method(walk: ObjectWalk, path: str, value: Any) -> None:
    dot = below(path)
    walk.enqueue([(path, value.__self__, None, None)])
    if type(value.__func__) is types.FunctionType:
        walk.enqueue([(f"{dot}{value.__func__.__name__}()", value.__func__, None, None)])


def _take_cache(walk: ObjectWalk, path: str, value: Any) -> None:
    walk.reach.containers.append(value)
    walk.reach.caches[path] = (value, value.cache_info().currsize)
    walk.enqueue([(path, value.__wrapped__, None, None)])


def _take_context_variable(walk: ObjectWalk, path: str, value: Any) -> None:
    slot = Slot(value, CONTEXT)
    walk.reach.containers.append(slot)
    if (item := slot.read()) is not MISSING:
        walk.enqueue([(path, item, slot, None)])


def _wrapped_object(function: Any) -> Any:
    """Return the object behind a function that `functools.wraps` has made. Return None if there are only functions."""
    seen: set[int] = set()
    while type(function) is types.FunctionType and id(function) not in seen:
        seen.add(id(function))
        function = function.__dict__.get("__wrapped__")
    return None if type(function) is types.FunctionType else function


def _take_function(walk: ObjectWalk, path: str, value: Any) -> None:
    dot = below(path)
    code = value.__code__
    own = value.__dict__
    wrapped = _wrapped_object(value)
    if wrapped is not None:
        # `functools.wraps` has copied the attributes of an object, as in `torch.no_grad()(module)`. The step uses the
        # attributes of the object, not these copies.
        walk.enqueue([(path, wrapped, None, None)])
        own = {name: item for name, item in own.items() if name not in (attributes_of(wrapped) or {})}
    for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=False):
        slot = Slot(cell, CELL)
        walk.reach.containers.append(slot)
        if (item := slot.read()) is not MISSING:
            walk.enqueue([(f"{dot}{name}", item, slot, None)])
    defaults = value.__defaults__ or ()
    named = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    # If the function's code was replaced, it may have fewer parameters than defaults.
    for name, default in [*zip(named, defaults, strict=False), *(value.__kwdefaults__ or {}).items()]:
        if not issubclass(type(default), SCALARS):
            walk.enqueue([(f"{dot}{name}", default, None, None)])
    if is_user_file(code.co_filename) or value.__dict__:
        walk.reach.containers.append(value.__dict__)
        walk.enqueue(variables_in(dot, own))
    if is_user_file(code.co_filename):
        walk.take_names(dot, value.__globals__, names_in(code))


def _take_object(walk: ObjectWalk, path: str, value: Any) -> None:
    _take_attributes(walk, path, value)
    walk.take_class(path, type(value))


def _note_places(walk: ObjectWalk, value: Any) -> None:
    attributes = attributes_of(value)
    if attributes is not None:
        walk.reach.containers.append(attributes)
    for _, descriptor in layout_of(type(value)).slots:
        walk.reach.containers.append(Slot(value, descriptor))


def _take_torch_data(walk: ObjectWalk, path: str, value: Any) -> None:
    """Visit an object of torch that holds tensors, or that may make them in a step. For example, a scaler of gradients
    has None in place of its tensors at first. Without this visit, the object's attributes could not be put back."""
    if holds_tensor(value) or any(item is None for item in (attributes_of(value) or {}).values()):
        _note_places(walk, value)
        walk.later(stored_in(path, value))


def _take_proxy(walk: ObjectWalk, path: str, value: Any) -> None:
    """Visit the dict behind a read-only view, unless it has the variables of a class."""
    [inner] = gc.get_referents(value)
    if type(inner) is not dict or "__module__" not in inner:
        walk.enqueue([(path, inner, None, None)])
