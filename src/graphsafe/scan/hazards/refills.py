"""Finds writes into a graph's input, on a side stream or by the host, that need not come after the last replay."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.domain.values import Tensor
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import Function, Line, own_nodes, place
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.hazards.side_stream import WAITS
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

_HOST_WAITS = re.compile(r"\.(?:synchronize|query|item|tolist|cpu|numpy)\(")
"Calls after which the host knows that earlier work is done."
_FILLS = re.compile(r"(?:\[.*?\]\s*=[^=]|\.(?:copy_|fill_|zero_|numpy)\()")
"Matches the text after a host tensor's name if the code writes into the tensor."


def lines(found: Tables) -> Iterator[Line]:
    """Yield copies into memory that the function did not make, on a side stream that never waits for another stream."""
    waiting = {
        (dotted(call.func.value) or "").rpartition(".")[2]
        for call in inside(found.tree, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in WAITS
    }
    for name, function, _ in found.functions:
        for _, block in own_nodes(function):
            stream = _side_stream(block)
            if stream is None or stream.rpartition(".")[2] in waiting:
                continue
            for call in _copies(block, _made_in(function)):
                yield Line(name, "refilled", call, ast.unparse(call.func))


def _side_stream(block: ast.AST) -> str | None:
    """Return the name of the stream that `with torch.cuda.stream(…)` enters."""
    for item in block.items if isinstance(block, (ast.With, ast.AsyncWith)) else ():
        call = item.context_expr
        if isinstance(call, ast.Call) and call.args and (dotted(call.func) or "").endswith("cuda.stream"):
            return place(call.args[0])
    return None


def _copies(block: ast.AST, made: set[str]) -> Iterator[ast.Call]:
    """Yield `x.copy_(…, non_blocking=True)` for tensors that outlive the function's call."""
    for call in ast.walk(block):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "copy_":
            target = place(call.func.value)
            is_async = any(word.arg == "non_blocking" for word in call.keywords)
            if is_async and target is not None and target.partition(".")[0] not in made:
                yield call


def _made_in(function: Function) -> set[str]:
    return {
        node.id for _, node in own_nodes(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def copied(frame: Frame, node: ast.Call, source: Tensor) -> None:
    """Emit that an asynchronous copy reads pinned memory which the host writes again before anything waits for it."""
    if not frame.hot or not source.pinned or source.where != "host" or source.attr is None or source.fresh:
        return
    ref, _, name = source.attr.rpartition(".")
    path = ref.partition("::")[0]
    files = frame.project.files
    if any(files.search(one, _HOST_WAITS) for one in {path, frame.path}):
        return
    writers = [line for line in files.source(path).lines if re.search(rf"\.{re.escape(name)}{_FILLS.pattern}", line)]
    if writers:
        frame.emit("AttrWrite", "refilled", node, value=f"`{source.name or name}`")
