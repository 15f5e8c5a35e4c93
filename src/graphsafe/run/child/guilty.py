"""Finds the expression that broke a capture on a GPU. Also finds the expression of a line that waits for a stream.

CUDA refuses an illegal operation at once. So the guilty line is the innermost line of the user's code in the traceback
of the first error. An error that only repeats an earlier, swallowed error names no line.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Mapping
from types import FrameType, ModuleType
from typing import Any

import torch

from graphsafe.capture.answers.events import StepEvent, StepEventKind
from graphsafe.capture.shared.classify import node_at
from graphsafe.capture.shared.frames import is_user_file, message_of, traceback_frames
from graphsafe.report.model import Span
from graphsafe.run.child.frozen.origins import Scope, running_in
from graphsafe.run.child.names import MISSING
from graphsafe.run.facts import Calls

_REPEATED = "previous error"
_ASKS = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT", "CONTAINS_OP")
_FORMATS = ("FORMAT_", "BUILD_STRING")
_BUILT_IN = {
    **{"float": "__float__", "int": "__int__", "complex": "__complex__", "bool": "__bool__", "range": "__index__"},
    **dict.fromkeys(("min", "max", "any", "all", "sorted"), "__bool__"),
    **dict.fromkeys(("print", "str", "repr", "format"), "__repr__"),
}
"Built-in functions of Python that read a tensor -> the tensor method that they call."
_READS: Mapping[str, StepEventKind] = {"cpu": "copy-to-host", "numpy": "copy-to-host", "item": "read", "tolist": "read"}
_LITERALS = frozenset({"torch.tensor", "torch.as_tensor"})

Act = tuple[StepEventKind, str | None, Mapping[str, Any]]
"The kind of an event, the name of the torch call that caused it, and more data about it."
_UNKNOWN: Act = ("hidden-sync", None, {})


def raised_by(error: BaseException) -> StepEvent | None:
    """Return the event that raised the first error of a capture.

    Return None if the program itself raised the error or if the line is unknown. If the operation is unknown, the kind
    is `hidden-sync`.
    """
    frames, span = traceback_frames(error.__traceback__)
    found = _innermost(error)
    if not frames or found is None or not isinstance(error, RuntimeError) or _REPEATED in message_of(error):
        return None
    frame, instruction = found
    running = _instruction(frame, instruction)
    if running.startswith("RAISE") or running == "RERAISE":
        return None
    kind, via, data = _UNKNOWN
    if "captur" in message_of(error):
        with torch._C.DisableTorchFunction():
            kind, via, data = _act(node_at(frames, span), running, running_in(frame))
    return StepEvent(kind, via or "", frames, span, via, data=data)


def waiting(frame: FrameType, places: Calls, span: Span | None, op: str) -> StepEvent:
    """Return the event of a line that waits in the operation `op`.

    The event is a read or a copy if the expression on the line shows one; otherwise it is a wait. `frame` is the
    running function, and `places` is the stack of calls that led to the line.
    """
    with torch._C.DisableTorchFunction():
        kind, via, data = _act(node_at(places, span), _instruction(frame, frame.f_lasti), running_in(frame))
    if via is None or via.endswith(".synchronize"):
        return StepEvent("wait", op, places, span)
    return StepEvent(kind, via, places, span, via, data=data)


def _innermost(error: BaseException) -> tuple[FrameType, int] | None:
    """Return the innermost frame of the user's code in a traceback, and the offset of its current instruction."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        if is_user_file(traceback.tb_frame.f_code.co_filename):
            found = traceback.tb_frame, traceback.tb_lasti
        traceback = traceback.tb_next
    return found


def _instruction(frame: FrameType, offset: int) -> str:
    """Return the name of an instruction. From Python 3.13 on, a comparison may also test the truth of its result. The
    name of such a comparison is the name of this test."""
    running = next((one for one in dis.get_instructions(frame.f_code) if one.offset == offset), None)
    if running is None:
        return ""
    return "TO_BOOL" if running.opname == "COMPARE_OP" and running.argrepr.startswith("bool(") else running.opname


def _act(node: ast.AST | None, running: str, scope: Scope) -> Act:
    if running.startswith(_ASKS):
        return "read", "torch.Tensor.__bool__", {}
    if running.startswith(_FORMATS):
        return "read", "torch.Tensor.__format__", {}
    if isinstance(node, ast.Call):
        return _call(node, scope)
    return _index(node, scope) if isinstance(node, ast.Subscript) else _UNKNOWN


def _call(node: ast.Call, scope: Scope) -> Act:
    method = _BUILT_IN.get(node.func.id) if isinstance(node.func, ast.Name) else None
    if method is not None and not isinstance(scope.origin(node.func).value, torch.nn.Module):
        return "read", f"torch.Tensor.{method}", {}
    via = _called(node.func, scope)
    if via is None:
        return _UNKNOWN
    if via.startswith("torch.Tensor.") and via.removeprefix("torch.Tensor.") in _READS:
        return _READS[via.removeprefix("torch.Tensor.")], via, {}
    if via in _LITERALS:
        return "copy-to-device", via, {"literal": not isinstance(scope.origin(node.args[0]).value, torch.Tensor)}
    if via in ("torch.Tensor.to", "torch.Tensor.cuda", "torch.Tensor.copy_"):
        return _copy(node, via, scope)
    return "hidden-sync", via, {}


def _copy(node: ast.Call, via: str, scope: Scope) -> Act:
    """Return the direction of a copy, if the source code or the running program shows on which side the copied tensor
    is."""
    given = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    if via == "torch.Tensor.to" and "cpu" in given:
        return "copy-to-host", via, {}
    receiver = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    source = scope.origin(node.args[0] if via == "torch.Tensor.copy_" and node.args else receiver).value
    if via == "torch.Tensor.cuda" or (isinstance(source, torch.Tensor) and source.is_cpu):
        return "copy-to-device", via, {}
    return _UNKNOWN


def _index(node: ast.Subscript, scope: Scope) -> Act:
    stores = isinstance(node.ctx, ast.Store)
    via = f"torch.Tensor.__{'setitem' if stores else 'getitem'}__"
    if any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
        return ("copy-to-device" if stores else "extent"), via, {}
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    values = [scope.origin(part).value for part in parts]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    has_mask = any(one.dtype in (torch.bool, torch.uint8) for one in tensors)
    if has_mask or any(isinstance(part, ast.Compare) for part in parts):
        return "extent", via, {"mask": True}
    if stores:
        return "copy-to-device", via, {}
    if any(isinstance(part, ast.List) for part in parts) or any(one.is_cpu for one in tensors):
        return "copy-to-device", via, {"index": True}
    return ("read", via, {}) if any(one.dim() == 0 for one in tensors) else _UNKNOWN


def _called(function: ast.expr, scope: Scope) -> str | None:
    """Return the name of the called torch function in the spelling of the op table.

    A method of an unknown object is taken for a tensor method: a method of the program would have its own frame in the
    traceback.
    """
    value = scope.origin(function).value
    if isinstance(function, ast.Name):
        name = getattr(value, "__name__", None)
        return None if name is None else f"{getattr(value, '__module__', None) or 'torch'}.{name}"
    if not isinstance(function, ast.Attribute):
        return None
    receiver = scope.origin(function.value).value
    if isinstance(receiver, ModuleType):
        return f"{receiver.__name__}.{function.attr}"
    if receiver is MISSING or isinstance(receiver, torch.Tensor):
        return f"torch.Tensor.{function.attr}"
    known = (kind for kind in (torch.cuda.Event, torch.cuda.Stream) if isinstance(receiver, kind))
    return next((f"torch.cuda.{kind.__name__}.{function.attr}" for kind in known), None)
