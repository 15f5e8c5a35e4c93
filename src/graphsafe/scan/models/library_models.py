"""Handles calls of libraries that have a model in the rulebook."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from graphsafe.rulebook.libraries import LibraryModel, Returns
from graphsafe.scan.domain.arguments import Arguments, unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import sequence
from graphsafe.scan.domain.naming import names_host
from graphsafe.scan.domain.values import (
    ARRAY,
    NONE,
    NUMBER,
    STR,
    Dict,
    NoneValue,
    Number,
    RuntimeObject,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
    holds_device,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards import evaluation
from graphsafe.scan.models import named_calls, packed_sequences


def call(frame: Frame, node: ast.Call, name: str, model: LibraryModel, arguments: Arguments) -> Value:
    """Return the result of a call according to its model. If the call makes an object, the object keeps the dotted
    `name`, since its methods are listed under this name."""
    on_host = name.partition("[")[2].startswith("on the host") and not any(map(holds_device, arguments.values()))
    if name.endswith("[momentum=None].forward") and evaluation.is_certain(frame):
        on_host = True  # only training code reads the number of batches
    spared = _is_spared(model, arguments)
    if spared and model.returns == "object":
        return unknown_result(arguments)
    if model.waits and not (on_host or spared or _reads_host(node, arguments) or _loads_to_host(model, arguments)):
        frame.emit("HostRead", "library", node, value=f"`{name}`")
    return _returned(name, model.returns, arguments)


def _is_spared(model: LibraryModel, arguments: Arguments) -> bool:
    """Return whether a call passes, or may pass, an argument with which it does not wait."""
    if model.unless and arguments.further is not None:
        return True
    given = (arguments.get(position, name) for name, position in model.unless.items())
    return any(one is not None and type(one) is not NoneValue for one in given)


def _reads_host(node: ast.Call, arguments: Arguments) -> bool:
    """Return whether the data that a call needs on the host may already be on the host, like the index tensors of a
    plan."""
    first = next(iter(arguments.values()), None)
    if first is None:
        return False
    tensor = as_tensor(first)[0]
    if tensor is not None:
        return tensor.where == "host"
    text = node.args[0] if node.args else node.keywords[0].value if node.keywords else None
    return text is not None and names_host(text)


def _loads_to_host(model: LibraryModel, arguments: Arguments) -> bool:
    """Return whether a call loads tensors to the host because it names no device."""
    return model.returns == "host-tensors" and not arguments.further and arguments.get(1, "device") is None


def method(frame: Frame, node: ast.Call, owner: RuntimeObject, name: str, arguments: Arguments) -> Value:
    """Return the result of a method of an object that a library made."""
    full = f"{owner.detail}.{name}"
    named_calls.note(frame, node, full)
    model = frame.engine.libraries.find(full)
    if model is None:
        after = unknown_result(arguments)
        return Unknown(after.step, True) if isinstance(after, Unknown) else after
    return call(frame, node, full, model, arguments)


def runtime_object(returns: Returns) -> RuntimeObject | None:
    """Return the stream, event or context that a word of a model stands for, or None for any other word."""
    made = _RUNTIME_OBJECTS.get(returns) if isinstance(returns, str) else None
    return RuntimeObject(*made) if made is not None else None


_RUNTIME_OBJECTS: Mapping[str, tuple[str, str | None]] = {
    "stream": ("stream", None),
    "side-stream": ("stream", "side"),
    "current-stream": ("stream", "current"),
    "default-stream": ("stream", "default"),
    "host-generator": ("random", None),
    "array-generator": ("numpy-random", None),
    "thread-pool": ("threads", None),
    **{kind: (kind, None) for kind in ("event", "graph", "capture", "stream-context", "device-context", "grad-mode")},
}
"A word of libraries.yaml -> the kind and the detail of the object that the word stands for."


def _returned(name: str, returns: Returns, arguments: Arguments) -> Value:
    """Return the result of a call, as described by a word of its model."""
    if not isinstance(returns, str):
        parts = sequence("tuple", [_returned(name, part, arguments) for part in returns])
        return packed_sequences.after(arguments.first, parts)
    step = any(map(depends_on_step, arguments.values()))
    first = arguments.first
    tensor, _ = as_tensor(first)
    if returns in ("first", "unchanged"):
        if tensor is None:
            return NUMBER if type(first) is Number else first
        return tensor if returns == "unchanged" else replace(tensor, ndim=None, name=None)
    if returns == "shape-of-first":
        return Tensor(dtype="float", step=step, fresh=True, ndim=tensor.ndim if tensor is not None else None)
    made = runtime_object(returns)
    if made is not None:
        return made
    simple: dict[str, Value] = {
        "object": RuntimeObject("library", name),
        "tensor": Tensor(step=step, fresh=True),
        "host-tensor": Tensor(where="host", fresh=True),
        "tensors": Unknown(step, True),
        "host-tensors": Dict((), Tensor(where="host", fresh=True)),
        "length": Tensor(dtype="int", ndim=0, name="the cache's length"),
        "number": NUMBER,
        "array": ARRAY,
        "text": STR,
        "nothing": NONE,
        "capturing": Number(type="bool", overridable_by="capturing"),
    }
    return simple.get(returns, Unknown(step, False))
