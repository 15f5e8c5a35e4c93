"""Modules that a method calls with one of its parameters. Most modules take only tensors, so such a parameter is a
tensor.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from graphsafe.scan.domain.values import Instance, RuntimeObject, Tensor, Value, options
from graphsafe.scan.domain.values import Sequence as SequenceValue
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.calls.parameter_usage import is_used_as_tensor
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import parameters

_MODULE = re.compile(r"torch\.nn\.(modules\.\w+\.)?(?P<name>[A-Z]\w*)(\[.*)?$")
_OF_ANYTHING = frozenset("Module Identity Container".split())
"Modules that take arguments of any kind."
_OF_PACKED = frozenset("RNN LSTM GRU DataParallel".split())
"""Modules that may take values other than tensors: a recurrent module also takes a packed sequence, and DataParallel
takes the arguments of the module that it wraps."""
_NEVER = (float("inf"), 0)


def feeds_tensor_module(frame: Frame, function: ast.AST, name: str) -> bool:
    """Return whether the body passes this parameter as the first argument to a module in an attribute of `self`, and
    this module takes only tensors.

    For a module of PyTorch, the module's class shows whether it takes only tensors. For a module of the project, the
    first parameter of its `forward` shows this.
    """
    receiver = frame.self_value
    if type(receiver) is not Instance:
        return False
    return any(
        _takes_tensor(frame, frame.attributes.of_instance(receiver, attribute, frame.level))
        for attribute in _fed(function).get(name, ())
    )


def _takes_tensor(frame: Frame, value: Value | None) -> bool:
    found = [_kind(frame, option) for option in options(value)] if value is not None else []
    return bool(found) and all(found) and any(name not in _OF_ANYTHING for name in found)


def _kind(frame: Frame, value: Value) -> str:
    """Return the name of a module's class. For an `nn.Sequential`, return the name of its first module's class. Return
    an empty string if the module may take values other than tensors."""
    if type(value) is SequenceValue:
        first = value.items[0] if value.items else value.elem
        return "" if type(first) is SequenceValue else _kind(frame, first)
    if type(value) is Instance:
        return value.ref if frame.attributes.is_module(value.ref) and _steps_on_tensor(frame, value.ref) else ""
    found = _MODULE.match(value.detail or "") if type(value) is RuntimeObject and value.kind == "module" else None
    return found["name"] if found is not None and found["name"] not in _OF_PACKED else ""


def _steps_on_tensor(frame: Frame, ref: str) -> bool:
    """Return whether the first parameter of a module's `forward` is a tensor, by its annotation or by its use."""
    method = frame.project.find_method(ref, "forward")
    node = frame.project.method_node(ref, "forward")
    first = parameters(node)[1:2] if node is not None else []
    if method is None or node is None or not first or first[0] in node.args.kwonlyargs:
        return False
    file = frame.project.file_of(method)
    declared = first[0].annotation
    if declared is not None and file is not None:
        return type(annotated(frame.engine, file, declared)) is Tensor
    return is_used_as_tensor(node, first[0].arg, frame.ops, "step-input")


@memoize_on_node
def _fed(function: ast.AST) -> Mapping[str, Sequence[str]]:
    """For each name, collect the attributes of `self` that are called with it as first argument before the name is
    bound."""
    found: dict[str, list[str]] = {}
    for call in inside(function, ast.Call):
        module, first = call.func, call.args[0] if call.args else None
        if type(first) is not ast.Name or type(module) is not ast.Attribute or type(module.value) is not ast.Name:
            continue
        if module.value.id == "self" and (first.lineno, first.col_offset) < _first_bound(function, first.id):
            found.setdefault(first.id, []).append(module.attr)
    return found


@memoize_on_node
def _first_bound(function: ast.AST, name: str) -> tuple[float, int]:
    """Return the position at which a local name is first bound. For an assignment, this is the end of the statement."""
    bound = [
        (one.lineno, one.col_offset)
        for one in inside(function, ast.Name)
        if one.id == name and type(one.ctx) is not ast.Load
    ]
    first = min(bound) if bound else _NEVER
    for statement in inside(function, ast.Assign) if bound else ():
        value = statement.value
        if (statement.lineno, statement.col_offset) <= first < (value.lineno, value.col_offset):
            return (statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
    return first
