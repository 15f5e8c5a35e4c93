"""Attributes of values: what `value.name` is."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import held_in, kept, not_held
from graphsafe.scan.domain.naming import HOST_NAME, known_by
from graphsafe.scan.domain.state_log import Read
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
from graphsafe.scan.interpreter import class_values
from graphsafe.scan.interpreter.attributes import MODULE_ATTRIBUTES, named_attribute
from graphsafe.scan.models import library, named_tuples
from graphsafe.scan.symbols.declared_fields import declared_in

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

_PERHAPS_CUDA = replace(ON_CUDA, const="cuda", type="str")
PARAM_GROUPS = "param_groups"
"Of optimizers: what they compute with, such as the learning rate."
_PARAM_GROUPS = held_in(
    of_elements("list", Dict((("params", of_elements("list", Tensor(dtype="float"))),), UNKNOWN)), PARAM_GROUPS
)
_RECURRENT = re.compile(r"\.(RNN|LSTM|GRU)(Base|Cell)?$")
"Modules whose `bias` is a flag: their parameters have a layer's number in the name."


def attribute(engine: Engine, frame: Frame, node: ast.AST, owner: Value, name: str, text: str | None) -> Value:
    """`owner.name`; `text` is how the code writes it, where it is a plain chain of names."""
    if isinstance(owner, Tensor):
        return _of_tensor(engine, owner, name)
    if isinstance(owner, Instance):
        return of_instance(engine, frame, node, owner, name, text or f"….{name}")
    if isinstance(owner, Lib):
        return library.constant(f"{owner.name}.{name}")
    if isinstance(owner, ProjectModule):
        file = engine.project.file(owner.path)
        binding = engine.project.resolve(file, name) if file is not None else None
        if binding is None:
            binding = engine.project.resolve_dotted(f"{owner.name}.{name}", owner.path)
        return engine.globals.bound(binding)
    if isinstance(owner, ClassValue):
        return _of_class(engine, owner, name)
    if isinstance(owner, RuntimeObject):
        return _of_runtime_object(owner, name)
    if isinstance(owner, DeviceValue):
        if name == "type":
            where = owner.where
            return number("cpu" if where == "host" else "cuda") if where != "any" else _PERHAPS_CUDA
        return INT
    if isinstance(owner, Sequence):
        return _of_sequence(owner, name)
    if isinstance(owner, Dict):
        # A namespace made of a dict's items (a model output, a config) answers by key.
        found: Value = dict(owner.items).get(name, UNKNOWN)
        return found
    if isinstance(owner, Array):
        return SIZE if name == "shape" else INT if name in ("size", "ndim") else ARRAY
    if isinstance(owner, Number):
        return NUMBER
    if isinstance(owner, DtypeValue):
        return NUMBER
    if isinstance(owner, Unknown):
        return _of_unknown(owner, name)
    return UNKNOWN


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
        return Tensor(where=tensor.where, dtype="float", step=tensor.step)
    op = engine.ops.method(name)
    if op is None or not op.attribute:
        return UNKNOWN
    return replace(tensor, fresh=False) if op.view else NUMBER


def of_instance(engine: Engine, frame: Frame, node: ast.AST, owner: Instance, name: str, text: str) -> Value:
    method = engine.project.find_method(owner.ref, name)
    if method is not None:
        facts = engine.project.function_facts(method)
        decorators = facts.decorators if facts is not None else ()
        if any(
            decorator.rpartition(".")[2] in ("property", "cached_property", "functional_property")
            for decorator in decorators
        ):
            cached = any("cached" in decorator for decorator in decorators)
            if cached:
                frame.guards.append("the cache around the property")
            value = engine.call(frame, node, Function(method, owner), Arguments())
            if cached:
                frame.guards.pop()
                value = kept(value)
            return named_attribute(value, text, f"{owner.ref}.{name}", {}) if type(value) is Tensor else value
        return Function(method, owner)
    key = engine.attributes.key(owner.ref, name)
    if frame.hot:
        engine.note_once(Read(key))
    found = class_values.before_assignment(engine, frame, node, owner, name)
    if found is None:
        found = engine.attributes.of_instance(owner.ref, name, frame.level)
    if found is None:
        if engine.attributes.is_module(owner.ref) and name in MODULE_ATTRIBUTES:
            return MODULE_ATTRIBUTES[name]
        if name == "__class__":
            return ClassValue(owner.ref)
        if name == "device":
            return DeviceValue("device" if engine.attributes.is_module(owner.ref) else "any")
        if name == "dtype":
            return DtypeValue(None)
        if name in (PARAM_GROUPS, "state") and _is_optimizer(engine, owner):
            # Of a parameter, or of a group of them, each a dict that outlives the step.
            return held_in(Dict((), Dict((), UNKNOWN)), key) if name == "state" else _PARAM_GROUPS
        return known_by(Unknown(owner.step, owner.step), name)
    if type(found) is Function and found.bound is None and _is_method(engine, found.ref):
        # `forward_core = Other.forward_core` in a class body.
        return replace(found, bound=owner)
    value = named_attribute(found, text, key, engine.attributes.marked)
    on_host = type(value) is Tensor and value.where == "host" and not HOST_NAME.search(name)
    if on_host and name in declared_in(engine.project, frame.path).on_device:
        # The file of the class keeps such a field on the host, this one does not.
        value = replace(value, where="any")  # type: ignore[arg-type]
    if owner.step and isinstance(value, (Tensor, Unknown)):
        return replace(value, step=True)
    # What a step makes, or is given, is another object in the next step.
    return not_held(value) if owner.step or owner.made else value


def field(engine: Engine, frame: Frame, owner: Value, key: Value | None) -> str | None:
    """The field of a schema, a typed dict or a model output that a key names, as in `sizes["count"]`."""
    name = key.const if type(key) is Number and isinstance(owner, Instance) else None
    if not isinstance(name, str) or engine.attributes.of_instance(owner.ref, name, frame.level) is None:  # type: ignore
        return None
    return name


def having_field(engine: Engine, frame: Frame, owners: Seq[Value], key: Value | None) -> Seq[Value]:
    """Of several such objects those that have the field: for the others the code would raise, or is given nothing."""
    if len(owners) < 2 or type(key) is not Number or not isinstance(key.const, str):
        return owners
    having = [owner for owner in owners if type(owner) is not Instance or field(engine, frame, owner, key) is not None]
    return having or owners


def _is_optimizer(engine: Engine, owner: Instance) -> bool:
    return any("::" not in base and base.rpartition(".")[2] == "Optimizer" for base in engine.project.mro(owner.ref))


def _is_method(engine: Engine, ref: str) -> bool:
    facts = engine.project.function_facts(ref)
    return facts is not None and facts.is_method


def _of_class(engine: Engine, owner: ClassValue, name: str) -> Value:
    method = engine.project.find_method(owner.ref, name)
    if method is not None:
        facts = engine.project.function_facts(method)
        bound = owner if facts is not None and "classmethod" in facts.decorators else None
        return Function(method, bound)
    if engine.project.class_facts(f"{owner.ref}.{name}") is not None:
        return ClassValue(f"{owner.ref}.{name}")
    bases = engine.project.mro(owner.ref)
    if any(base.startswith("enum.") for base in bases):
        return Number()
    return engine.attributes.of_class(owner.ref, name)


def _of_runtime_object(owner: RuntimeObject, name: str) -> Value:
    if owner.kind == "module":
        if name == "bias" and _RECURRENT.search(owner.detail or ""):
            return Number(type="bool", overridable_by="attribute")
        if name in ("weight", "bias", "in_proj_weight"):
            return Tensor(dtype="float", name=f"….{name}")
        if name in ("in_features", "out_features", "num_embeddings", "embedding_dim", "padding_idx", "num_heads"):
            return INT
        if name == "training":
            return MODULE_ATTRIBUTES["training"]
        return Unknown(device=True)
    if owner.kind == "environment":
        return Number(overridable_by="environment")
    if name == "device":
        return DeviceValue("device")
    if owner.kind == "library" and (owner.detail or "").startswith("torch.distributions."):
        return Unknown(device=True)
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


def _of_unknown(owner: Unknown, name: str) -> Value:
    if name == "shape":
        return SIZE
    if name == "device":
        return DeviceValue("any")
    if name == "dtype":
        return DtypeValue(None)
    if name == "is_cuda":
        return ON_CUDA
    if name == "ndim":
        return NUMBER
    if name == PARAM_GROUPS:
        return _PARAM_GROUPS
    return known_by(owner, name)
