"""Methods that every module of PyTorch has. Some of them return the module itself, others iterate over its tensors."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.joins import sequence
from graphsafe.scan.domain.values import (
    STR,
    UNKNOWN,
    Dict,
    Sequence,
    Tensor,
    Value,
    as_tensor,
    confidence_of,
    describe,
    of_elements,
    options,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import moves_to_host, parents_in
from graphsafe.scan.models import weight_refills
from graphsafe.scan.models.op_arguments import is_true
from graphsafe.scan.state.provenance import is_module
from graphsafe.scan.state.writes import write_weights

_WALKS = {"parameters": "float", "named_parameters": "float", "buffers": None, "named_buffers": None}


def of_module(frame: Frame, node: ast.Call, receiver: Value, name: str, arguments: Arguments) -> Value | None:
    """Return the result of a method that every module has, or None for any other method."""
    if name == "load_state_dict":
        _load(frame, node, receiver, arguments)
    if moves_to_host(node) and frame.node is not None and isinstance(parents_in(frame.node).get(node), ast.Expr):
        # `self.net.to("cpu")` frees the memory on the device. Later `self.net.to("cuda")` allocates other memory.
        write_weights(frame, receiver, ast.unparse(node), UNKNOWN, node)
    if name == "state_dict":
        return Dict((), Tensor())
    if name in _WALKS:
        tensor = Tensor(dtype=_WALKS[name])  # type: ignore[arg-type]
        return of_elements("iterator", sequence("tuple", (STR, tensor)) if name.startswith("named_") else tensor)
    model = frame.engine.libraries.find(f"torch.nn.Module.{name}")
    return receiver if model is not None and model.returns == "self" else None


def _load(frame: Frame, node: ast.Call, receiver: Value, arguments: Arguments) -> None:
    """Emit the copies by which `load_state_dict` copies host tensors into the parameters. With `assign=True`, new
    parameters replace the old ones."""
    if is_true(arguments.get(2, "assign")):
        write_weights(frame, receiver, ast.unparse(node), UNKNOWN, node)
    elif isinstance(node.func, ast.Attribute):
        weight_refills.note_all(frame, node, node.func.value)
    state = arguments.get(0, "state_dict")
    tensor, certain = as_tensor(state.elem) if type(state) is Dict else (None, False)
    if tensor is not None and tensor.where == "host" and not is_true(arguments.get(2, "assign")):
        frame.emit("Transfer", "blocking", node, confidence_of(tensor, certain), value=describe(tensor))


def holds_modules(frame: Frame, container: Sequence | Dict) -> bool:
    """Return whether a list or dict may be a ModuleList or a ModuleDict."""
    return any(is_module(frame, option) for option in options(container.elem))
