"""Finds the torch call that the running line makes, in the spelling of the op table, from the stack and the source.

A function mode would see the call, but Dynamo guards on function modes. Code that was compiled without the mode would
be compiled again under it, or fail to compile.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from types import FrameType, ModuleType
from typing import Any

from graphsafe.capture.shared.classify import node_at
from graphsafe.capture.shared.frames import is_user_file, user_frames

_SPELLED = {
    "torch._tensor": "torch",
    "torch.functional": "torch",
    "torch.cuda.streams": "torch.cuda",
    "torch.distributed.distributed_c10d": "torch.distributed",
}
"Module -> the name under which users know its functions."
_MACHINERY = ("torch._compile", "torch._dynamo", "torch._jit_internal", "torch._ops", "torch._utils", "torch.utils._")
"""Modules whose frames are between a call and graphsafe on the stack."""
_BY_BUILTIN = {
    **{name: f"__{name}__" for name in ("int", "float", "complex", "bool", "str", "repr", "format")},
    **dict.fromkeys(("range", "slice"), "__index__"),
    **dict.fromkeys(("any", "all", "max", "min", "sorted"), "__bool__"),
    "print": "__str__",
}


def running_call(frame: FrameType) -> str | None:
    """Return the torch call that the user's innermost line makes, or None if it is unknown."""
    between: FrameType | None = None
    at: FrameType | None = frame
    while at is not None and not is_user_file(at.f_code.co_filename):
        module = str(at.f_globals.get("__name__"))
        if module.startswith("torch") and not module.startswith(_MACHINERY):
            between = at
        at = at.f_back
    if at is None:
        return None
    return _of_source(at) if between is None else _of_frame(between)


def _of_frame(frame: FrameType) -> str:
    """Return the name of a torch function that is written in Python."""
    module = str(frame.f_globals.get("__name__"))
    name: str = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    if module == "torch._tensor" and "." not in name:
        name = f"Tensor.{name}"
    return f"{_SPELLED.get(module, module)}.{name}"


def _of_source(frame: FrameType) -> str | None:
    frames, span = user_frames(frame)
    node = node_at(frames, span)
    if isinstance(node, ast.Subscript):
        return "torch.Tensor.__getitem__" if isinstance(node.ctx, ast.Load) else "torch.Tensor.__setitem__"
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return "torch.Tensor.__contains__"
    if not isinstance(node, ast.Call):
        return "torch.Tensor.__bool__" if isinstance(node, ast.expr) else None
    if isinstance(node.func, ast.Name):
        value = _names(frame).get(node.func.id, getattr(builtins, node.func.id, None))
        if value is getattr(builtins, node.func.id, None):
            return f"torch.Tensor.{_BY_BUILTIN[node.func.id]}" if node.func.id in _BY_BUILTIN else None
        return _dotted(value)
    if isinstance(node.func, ast.Attribute):
        owner = _value(node.func.value, frame)
        if isinstance(owner, ModuleType):
            return f"{_SPELLED.get(owner.__name__, owner.__name__)}.{node.func.attr}"
        return f"torch.Tensor.{node.func.attr}"
    return None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the object that a dotted name refers to, without calling anything."""
    if isinstance(node, ast.Name):
        return _names(frame).get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        return vars(owner).get(node.attr) if isinstance(owner, ModuleType) else None
    return None


def _names(frame: FrameType) -> Mapping[str, Any]:
    return {**frame.f_globals, **frame.f_locals}


def _dotted(value: Any) -> str | None:
    name = getattr(value, "__name__", None)
    module = getattr(value, "__module__", None) or "torch"
    return None if name is None else f"{_SPELLED.get(module, module)}.{name}"
