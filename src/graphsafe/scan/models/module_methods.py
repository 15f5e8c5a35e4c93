"""Methods that every module of PyTorch has: those that return the module itself, and those that walk its tensors."""

from __future__ import annotations

from graphsafe.scan.domain.joins import sequence
from graphsafe.scan.domain.values import (
    STR,
    Dict,
    Instance,
    RuntimeObject,
    Sequence,
    Tensor,
    Value,
    of_elements,
    options,
)
from graphsafe.scan.execution.frame import Frame

_WALKS = {"parameters": "float", "named_parameters": "float", "buffers": None, "named_buffers": None}


def of_module(frame: Frame, receiver: Value, name: str) -> Value | None:
    """Return the result of a method that every module has; None for other methods."""
    if name in _WALKS:
        tensor = Tensor(dtype=_WALKS[name])  # type: ignore[arg-type]
        return of_elements("iterator", sequence("tuple", (STR, tensor)) if name.startswith("named_") else tensor)
    model = frame.engine.libraries.find(f"torch.nn.Module.{name}")
    return receiver if model is not None and model.returns == "self" else None


def holds_modules(frame: Frame, container: Sequence | Dict) -> bool:
    """Return whether a list or dict may be a ModuleList or a ModuleDict."""
    return any(
        (type(option) is RuntimeObject and option.kind == "module")
        or (type(option) is Instance and frame.attributes.is_module(option.ref))
        for option in options(container.elem)
    )
