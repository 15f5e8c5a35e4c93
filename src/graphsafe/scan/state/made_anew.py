"""Modules and objects with tensors that a step makes anew, in place of those that the constructor made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import (
    ClassValue,
    Function,
    Instance,
    RuntimeObject,
    Tensor,
    Unknown,
    Value,
    as_tensor,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.state.provenance import bound_expression
from graphsafe.scan.symbols.index import dotted


def held_tensors(frame: Frame, owner: Instance) -> Iterator[Tensor]:
    """Yield the device tensors that an object has from its constructor."""
    names = dict.fromkeys(frame.attributes.field_names(owner.ref))
    names.update((name, None) for _, facts in frame.project.own_classes(owner.ref) for name in facts.writers)
    held = (frame.attributes.initial(replace(owner, step=False), name) for name in names)
    tensors = (as_tensor(value)[0] for value in held if value is not None)
    yield from (tensor for tensor in tensors if tensor is not None and tensor.where != "host")


def is_made_anew(frame: Frame, before: Value | None, value: Value, written: ast.expr | None) -> bool:
    """Return whether a new module, or a new object that holds tensors, replaces one that the constructor made."""
    made = bound_expression(frame, written)
    if not isinstance(made, ast.Call):
        return False
    if type(value) is RuntimeObject:
        return value.kind == "module" and type(before) is RuntimeObject and before.kind == value.kind
    if type(value) is not Instance or type(before) is not Instance or value.ref != before.ref:
        return False
    name = (dotted(made.func) or "").rpartition(".")[2]
    if name == "deepcopy" and frame.attributes.is_module(value.ref):
        return True
    if name == "replace" and not _replaces_tensors(frame, made):
        return False
    called = frame.evaluate_quietly(made.func)
    maker = called.bound if type(called) is Function else called
    return (value.made or type(maker) is ClassValue) and any(True for _ in held_tensors(frame, value))


def _replaces_tensors(frame: Frame, call: ast.Call) -> bool:
    """Return whether `dataclasses.replace(state, pos=x)` may give another device tensor to some field."""
    given = [frame.evaluate_quietly(word.value) for word in call.keywords]
    tensors = [as_tensor(value)[0] for value in given]
    is_other = any(one is not None and one.where != "host" and (one.fresh or one.attr is None) for one in tensors)
    return is_other or any(type(value) is Unknown for value in given)
