"""Finds the torch call that the running line makes, in the spelling of the op table, from the stack and the source.

A function mode would see the call, but Dynamo guards on function modes. Code that was compiled without the mode would
be compiled again under the mode, or fail to compile.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from types import FrameType, ModuleType
from typing import Any

from graphsafe.capture.shared.classify import node_at
from graphsafe.capture.shared.frames import frames_from, is_user_file, public_name, torch_function, user_frames

_BY_BUILTIN = {
    **{name: f"__{name}__" for name in ("int", "float", "complex", "bool", "str", "repr", "format")},
    **dict.fromkeys(("range", "slice"), "__index__"),
    **dict.fromkeys(("any", "all", "max", "min", "sorted"), "__bool__"),
    "print": "__str__",
}


def running_call(frame: FrameType) -> str | None:
    """Return the torch call that the user's innermost line makes, or None if it is unknown."""
    called = torch_function(frame)
    at = next((one for one in frames_from(frame) if is_user_file(one.f_code.co_filename)), None)
    return called if called is not None or at is None else _of_source(at)


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
        name = getattr(value, "__name__", None)
        return None if name is None else public_name(getattr(value, "__module__", None) or "torch", name)
    if isinstance(node.func, ast.Attribute):
        owner = _value(node.func.value, frame)
        if isinstance(owner, ModuleType):
            return public_name(owner.__name__, node.func.attr)
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
