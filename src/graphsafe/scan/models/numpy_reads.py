"""Tensors that numpy reads. Numpy raises an error for a device tensor, so in working code these tensors are on the
host.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.values import ARRAY, Tensor, Value, describe, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models.op_arguments import tensors_in
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import dotted

_VIEWS = frozenset("detach reshape view flatten squeeze unsqueeze transpose permute contiguous".split())


def read(frame: Frame, node: ast.Call, values: Iterable[Value]) -> Value:
    """Return the array that numpy makes of these values.

    In working code, the tensors among these values are on the host. So an event about a copy from the device is only
    `possible`, unless a constructor shows that the tensor is made on the device. In later lines, the tensors count as
    host tensors.
    """
    for value in values:
        for tensor in tensors_in(value):
            if tensor.where == "device":
                is_shown = tensor.certain and tensor.attr is not None
                confidence: Confidence = "likely" if is_shown else "possible"
                frame.emit("Transfer", "to-host", node, confidence, value=describe(tensor))
    learn(frame, node)
    return ARRAY


def learn(frame: Frame, node: ast.Call) -> None:
    """Record that the tensors which a call passes to numpy, directly or as views, are on the host."""
    for name in _names_read(node):
        known = frame.env.get(name)
        if known is not None and any(type(option) is Tensor for option in options(known)):
            frame.env[name] = join_all(_on_host(one) for one in options(known))


def _on_host(value: Value) -> Value:
    """Return the value as a host tensor, which numpy can read. The tensor's memory may be pinned, so a later copy of
    the tensor may not need to wait."""
    if type(value) is not Tensor or value.where == "host":
        return value
    return replace(value, where="host", certain=False)


def copied(frame: Frame, node: ast.Call, values: Iterable[Value]) -> Value:
    """Return the array that a call makes after copying device tensors to the host: `x.numpy(force=True)`."""
    for value in values:
        for tensor in tensors_in(value):
            frame.emit_if_on_device("Transfer", "to-host", node, tensor)
    return ARRAY


@memoize_on_node
def names_read(function: ast.AST) -> Set[str]:
    """Return the names whose tensors numpy reads without a copy to the host: `x.numpy()`, `np.isfinite(x.reshape(-1))`.

    Reads in branches are left out, and so are names that the function rebinds or whose type it tests.
    """
    found = {name for call in inside(function, ast.Call) for name in _names_read(call)}
    if not found:
        return found
    branches: list[ast.If | ast.IfExp] = [*inside(function, ast.If), *inside(function, ast.IfExp)]
    choosing = {call for branch in branches for call in inside(branch, ast.Call)}
    always = {name for call in inside(function, ast.Call) if call not in choosing for name in _names_read(call)}
    bound = {node.id for node in inside(function, ast.Name) if isinstance(node.ctx, ast.Store)}
    return always - bound - {node.id for branch in branches for node in inside(branch.test, ast.Name)}


@memoize_on_node
def names_turned(function: ast.AST) -> Set[str]:
    """Return the names whose values a function converts to arrays: `x = x.detach().cpu().numpy()`."""
    return {
        target.id
        for node in inside(function, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Call)
        if (text := ast.unparse(node.value)).startswith(f"{target.id}.") and text.endswith(".numpy()")
    }


def _names_read(call: ast.Call) -> Iterator[str]:
    """Yield the names of the values that a call passes to numpy, directly or as views."""
    read: list[ast.expr] = []
    if isinstance(call.func, ast.Attribute) and call.func.attr == "numpy" and not (call.args or call.keywords):
        read = [call.func.value]
    elif (dotted(call.func) or "").startswith(("np.", "numpy.")):
        read = call.args
    yield from (base.id for one in read if isinstance(base := _viewed(one), ast.Name))


def _viewed(node: ast.expr) -> ast.expr:
    """Return the base of a view: `x` for `x[0].reshape(-1)`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            node = node.func.value
        else:
            return node
