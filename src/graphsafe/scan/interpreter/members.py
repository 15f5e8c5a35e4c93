"""Attributes of values: `value.name` for each kind of value."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import PARAM_GROUPS, held_in, kept, not_held
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.naming import HOST_NAME, known_by
from graphsafe.scan.domain.values import (
    ARRAY,
    INT,
    NUMBER,
    ON_CUDA,
    SIZE,
    UNKNOWN,
    Array,
    ClassValue,
    DeviceValue,
    Dict,
    DtypeValue,
    Function,
    Instance,
    Lib,
    Number,
    ProjectModule,
    RuntimeObject,
    Sequence,
    Tensor,
    Unknown,
    Value,
    number,
    of_elements,
)
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.interpreter import class_values, shared_state
from graphsafe.scan.interpreter.named_attribute import named_attribute
from graphsafe.scan.interpreter.settled import settled
from graphsafe.scan.models import library, named_tuples, spelled_out
from graphsafe.scan.state import host_clock, straight_line
from graphsafe.scan.symbols.declared_fields import declared_in

_PERHAPS_CUDA = replace(ON_CUDA, const="cuda", type="str")
MAX_SUBCLASSES = 6
"The largest number of subclasses that are searched for an attribute, if the declared class does not have it."
_GROUPS = of_elements("list", Dict((("params", of_elements("list", Tensor(dtype="float"))),), UNKNOWN))
_PARAM_GROUPS = held_in(_GROUPS, PARAM_GROUPS)
_PROPERTIES = frozenset(("property", "cached_property", "functional_property"))
_FLAG = Number(type="bool", overridable_by="attribute")
_MOMENTS = frozenset(("mean", "stddev", "variance", "mode"))
_RECURRENT = re.compile(r"\.(RNN|LSTM|GRU)(Base|Cell)?$")
"Matches modules whose `bias` is a flag. The parameters of such modules have a layer's number in their names."


def attribute(frame: Frame, node: ast.AST, owner: Value, name: str, text: str | None) -> Value:
    """Return `owner.name`. `text` is the expression as written in the code, if it is a plain chain of names."""
    if isinstance(owner, Tensor):
        if name == "_version" and owner.step and isinstance(node, ast.expr):
            return host_clock.read(frame, node, host_clock.VERSION)
        if name == "__getitem__":
            return spelled_out.items_of(frame, node, owner)
        found = _of_tensor(frame.engine, owner, name)
        # If no tensor has this attribute, the captured call returned another object, which may contain tensors.
        is_object = frame.captured and type(found) is Unknown and owner.where != "host"
        return Unknown(owner.step, device=True) if is_object else found
    if isinstance(owner, Instance):
        return of_instance(frame, node, owner, name, text or f"….{name}")
    if isinstance(owner, ProjectModule):
        binding = shared_state.binding_of(frame, owner, name)
        return shared_state.of_module(frame, binding, frame.engine.globals.bound(binding))
    if isinstance(owner, ClassValue):
        return shared_state.of_class(frame, owner, name, _of_class(frame.engine, owner, name))
    handler = _OF_PLAIN.get(type(owner))
    return UNKNOWN if handler is None else handler(owner, name)


def _of_device(owner: DeviceValue, name: str) -> Value:
    if name != "type":
        return INT
    return _PERHAPS_CUDA if owner.where == "any" else number("cpu" if owner.where == "host" else "cuda")


def _of_dict(owner: Dict, name: str) -> Value:
    """Return the entry with this key. The dict may be a model output or a config, whose entries are also attributes."""
    found: Value = dict(owner.items).get(name, UNKNOWN)
    return found


def _of_array(owner: Array, name: str) -> Value:
    return SIZE if name == "shape" else INT if name in ("size", "ndim") else ARRAY


def _of_tensor(engine: Engine, tensor: Tensor, name: str) -> Value:
    if name == "shape":
        return SIZE
    if name == "device":
        return DeviceValue(tensor.where, maybe_host=tensor.maybe_host)
    if name == "dtype":
        return DtypeValue(tensor.dtype)
    if name in ("is_cuda", "is_cpu"):
        known = tensor.where != "any" and tensor.certain
        on_cuda = number(tensor.where == "device") if known else ON_CUDA
        return on_cuda if name == "is_cuda" else replace(on_cuda, const=not on_cuda.const)
    if name == "grad":
        # Code that keeps gradients on the host usually pins their memory, on a separate line.
        on_host = tensor.where == "host"
        return Tensor(where=tensor.where, dtype="float", pinned=tensor.pinned, step=tensor.step, certain=not on_host)
    op = engine.ops.method(name)
    if op is not None and op.attribute:
        return tensor if op.view else NUMBER
    return UNKNOWN if op is None or not tensor.certain else Lib(f"torch.Tensor.{name}", bound=tensor)


def of_instance(frame: Frame, node: ast.AST, owner: Instance, name: str, text: str) -> Value:
    method = frame.project.find_method(owner.ref, name)
    if method is not None:
        return _of_method(frame, node, owner, method, name, text)
    key = frame.attributes.key(owner.ref, name)
    if frame.hot:
        frame.engine.note_read(frame, key, straight_line.is_set_before(frame, node, text))
    found = class_values.before_assignment(frame, node, owner, name)
    if found is None:
        found = frame.attributes.of_instance(owner, name, frame.level)
    if found is None:
        asked = by_getattr(frame, node, owner, name)
        if asked is not None:
            return asked
        below = frame.engine.overrides.with_attribute(owner.ref, name) if owner.declared else ()
        if below and len(below) <= MAX_SUBCLASSES:
            return join_all(of_instance(frame, node, Instance(ref, owner.step), name, text) for ref in below)
        return _undefined(frame, owner, name, key)
    facts = frame.project.function_facts(found.ref) if type(found) is Function and found.bound is None else None
    if type(found) is Function and facts is not None and facts.is_method:
        # A class body may contain `forward_core = Other.forward_core`.
        return replace(found, bound=owner)
    if type(found) is Instance:
        getter = _of_descriptor(frame, owner, name, "__get__")
        if getter is not None:
            return frame.call(node, getter, Arguments((owner, ClassValue(owner.ref))))
    value = named_attribute(found, text, key, frame.attributes.marked)
    value = settled(frame, owner, name, found, value)
    on_host = type(value) is Tensor and value.where == "host" and not HOST_NAME.search(name)
    if on_host and name in declared_in(frame.project, frame.path).on_device:
        # The two files contradict each other: the file of the class declares that the field stays on the host, but the
        # file that reads the field declares that it is on the device.
        value = replace(value, where="any")  # type: ignore[arg-type]
    if owner.step and isinstance(value, (Tensor, Unknown)):
        return replace(value, step=True)
    # Each step makes or receives its own object, so the next step has another object.
    return not_held(value) if owner.step or owner.made else value


def _of_descriptor(frame: Frame, owner: Instance, name: str, method: str) -> Function | None:
    """Return a method of the descriptor that an object's class binds to a name (`rate = Clamped()`), or None."""
    if name not in frame.project.body_names(owner.ref):
        return None
    held = frame.attributes.of_class(owner.ref, name)
    found = frame.project.find_method(held.ref, method) if type(held) is Instance else None
    return Function(found, held) if found is not None else None


def set_by_descriptor(frame: Frame, node: ast.AST, owner: Instance, name: str, value: Value) -> bool:
    """Perform `owner.name = value` and return True, if the class binds the name to a descriptor with `__set__`."""
    setter = _of_descriptor(frame, owner, name, "__set__")
    if setter is not None:
        frame.call(node, setter, Arguments((owner, value)))
    return setter is not None


def by_getattr(frame: Frame, node: ast.AST, owner: Instance, name: str) -> Value | None:
    """Return the result of the object's `__getattr__` for an attribute that nothing else defines, or None if it is not
    known.

    The result is not known if a base class belongs to a library. This class may define the attribute, and Python would
    then not call `__getattr__`.
    """
    method = frame.project.find_method(owner.ref, "__getattr__")
    if method is None or name.startswith("__") or frame.project.has_foreign_base(owner.ref):
        return None
    made = frame.call(node, Function(method, owner), Arguments((number(name),)))
    return None if type(made) is Unknown else made


def _of_method(frame: Frame, node: ast.AST, owner: Instance, method: str, name: str, text: str) -> Value:
    """Return a bound method, or the value of a property."""
    decorators = frame.project.decorators(method)
    if _PROPERTIES.isdisjoint(decorator.rpartition(".")[2] for decorator in decorators):
        return Function(method, owner)
    cached = any("cached" in decorator for decorator in decorators)
    if cached:
        frame.guards.append("the cache around the property")
    value = frame.call(node, Function(method, owner), Arguments())
    if cached:
        frame.guards.pop()
        value = kept(value)
    return named_attribute(value, text, f"{owner.ref}.{name}", {}) if type(value) is Tensor else value


def _undefined(frame: Frame, owner: Instance, name: str, key: str) -> Value:
    """Return the value of an attribute that nothing in the project defines, judging by the attribute's name."""
    is_module = frame.attributes.is_module(owner.ref)
    if is_module and name == "training":
        return _FLAG
    if name == "__class__":
        return ClassValue(owner.ref)
    if name == "device":
        return DeviceValue("device" if is_module else "any")
    if name == "dtype":
        return DtypeValue(None)
    if name in (PARAM_GROUPS, "state") and _is_optimizer(frame.engine, owner):
        # The optimizer keeps a dict for each parameter or group. These dicts outlive the step.
        return held_in(Dict((), Dict((), UNKNOWN)), key) if name == "state" else held_in(_GROUPS, key)
    return known_by(Unknown(owner.step, owner.step), name)


def field(frame: Frame, owner: Value, key: Value | None) -> str | None:
    """Return the field that a key names in a schema, a typed dict or a model output, as in `sizes["count"]`, or
    None."""
    name = key.const if type(key) is Number and isinstance(owner, Instance) else None
    if not isinstance(name, str) or frame.attributes.of_instance(owner, name, frame.level) is None:  # type: ignore
        return None
    return name


def having_attribute(frame: Frame, owners: Seq[Value], name: str) -> Seq[Value]:
    """If some objects have the attribute, drop the objects of the project that do not have it. With a dropped object,
    the code would raise an error."""
    if len(owners) < 2 or not all(type(owner) is Instance for owner in owners):
        return owners
    return [owner for owner in owners if type(owner) is not Instance or _has(frame, owner, name)] or owners


def _has(frame: Frame, owner: Instance, name: str) -> bool:
    """Return whether an object may have an attribute, because its class defines it or other code may assign it."""
    project = frame.project
    if project.find_method(owner.ref, name) or frame.attributes.of_instance(owner, name, frame.level) is not None:
        return True
    return project.has_foreign_base(owner.ref) or (
        owner.declared and bool(frame.engine.overrides.with_attribute(owner.ref, name))
    )


def having_field(frame: Frame, owners: Seq[Value], key: Value | None) -> Seq[Value]:
    """If some objects have the field, keep only these. With any other object, the code would raise an error or get
    None."""
    if len(owners) < 2 or type(key) is not Number or not isinstance(key.const, str):
        return owners
    having = [owner for owner in owners if type(owner) is not Instance or field(frame, owner, key) is not None]
    return having or owners


def _is_optimizer(engine: Engine, owner: Instance) -> bool:
    return any("::" not in base and base.rpartition(".")[2] == "Optimizer" for base in engine.project.mro(owner.ref))


def _of_class(engine: Engine, owner: ClassValue, name: str) -> Value:
    method = engine.project.find_method(owner.ref, name)
    if method is not None:
        return Function(method, owner if "classmethod" in engine.project.decorators(method) else None)
    if name == "apply" and engine.project.derives(owner.ref, "autograd.Function"):
        forward = _of_class(engine, owner, "forward")
        return replace(forward, partial=(UNKNOWN,)) if type(forward) is Function else UNKNOWN
    if engine.project.class_facts(f"{owner.ref}.{name}") is not None:
        return ClassValue(f"{owner.ref}.{name}")
    bases = engine.project.mro(owner.ref)
    if any(base.startswith("enum.") for base in bases):
        return Number()
    return engine.attributes.of_class(owner.ref, name)


def _of_runtime_object(owner: RuntimeObject, name: str) -> Value:
    if owner.kind == "module":
        if name == "bias" and _RECURRENT.search(owner.detail or ""):
            return _FLAG
        if name in ("weight", "bias", "in_proj_weight"):
            return Tensor(dtype="float", name=f"….{name}")
        if name in ("in_features", "out_features", "num_embeddings", "embedding_dim", "padding_idx", "num_heads"):
            return INT
        if name == "training":
            return _FLAG
        return Unknown(device=True)
    if owner.kind == "environment":
        return Number(overridable_by="environment")
    if owner.kind == "optimizer" and name == PARAM_GROUPS:
        return _PARAM_GROUPS
    if name == "device":
        return DeviceValue("device")
    if owner.kind == "library" and (owner.detail or "").startswith("torch.distributions."):
        return Tensor(where="any", dtype="float") if name in _MOMENTS else Unknown(device=True)
    return UNKNOWN


def _of_sequence(owner: Sequence, name: str) -> Value:
    field = named_tuples.field(owner, name)
    if field is not None:
        return field
    positions = {"values": 0, "indices": 1, "output": 0}
    if name in positions and owner.items is not None and len(owner.items) > positions[name]:
        return owner.items[positions[name]]
    if name == "shape":
        return SIZE
    return UNKNOWN


_WELL_KNOWN: Mapping[str, Value] = {
    "shape": SIZE,
    "device": DeviceValue("any"),
    "dtype": DtypeValue(None),
    "is_cuda": ON_CUDA,
    "ndim": NUMBER,
    PARAM_GROUPS: _PARAM_GROUPS,
}
"Attributes whose value is known from the name."


def _of_unknown(owner: Unknown, name: str) -> Value:
    if name in _WELL_KNOWN:
        return _WELL_KNOWN[name]
    if name == "stddev":
        return Tensor(where="any", dtype="float", step=owner.step)  # only distributions have this attribute
    if name == "grad" and not owner.host:
        return replace(owner, device=True)
    return known_by(owner, name)


_OF_PLAIN: Mapping[type, Callable[[Any, str], Value]] = {
    Lib: lambda owner, name: library.constant(f"{owner.name}.{name}"),
    RuntimeObject: _of_runtime_object,
    DeviceValue: _of_device,
    Sequence: _of_sequence,
    Dict: _of_dict,
    Array: _of_array,
    Number: lambda owner, name: NUMBER,
    DtypeValue: lambda owner, name: NUMBER,
    Function: lambda owner, name: Lib("types.MethodType", (("function", owner),)) if name == "__get__" else UNKNOWN,
    Unknown: _of_unknown,
}
"The kinds of values whose attributes depend only on the value."
