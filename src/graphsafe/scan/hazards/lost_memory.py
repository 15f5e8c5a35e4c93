"""Finds tensors of a captured block that are freed at the end of the capturing function, although the graph is used
later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from graphsafe.scan.hazards.graph_syntax import (
    CaptureBlock,
    Function,
    Line,
    entry,
    graphs_of,
    own,
    parents_in,
    place,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, bindings
from graphsafe.scan.hazards.outputs.kept_values import put
from graphsafe.scan.hazards.owners import class_of, meant_in
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

_MAKES = tuple(
    "torch.arange torch.empty torch.eye torch.full torch.linspace torch.ones torch.rand torch.tensor torch.tril"
    " torch.triu torch.zeros torch.outer torch.cat torch.stack torch.exp torch.hann_window torch.logspace torch.softmax"
    " torch.sigmoid torch.sin torch.cos torch.where torch.einsum torch.matmul torch.cumsum torch.searchsorted"
    " torch.sqrt torch.mul torch.add torch.linalg. torch.fft. F.softmax F.one_hot F.normalize".split()
)
"Prefixes of the names of functions that return a new tensor."


def lines(found: Tables) -> Iterator[Line]:
    for table in found.all:
        for name in sorted(table.capturing - table.replaying):
            if not isinstance(table.scope, ast.ClassDef) and not table.is_of_module:
                makers = meant_in(found, class_of(found, name))
                yield from _in_function(name, table, makers)


def _in_function(name: str, table: GraphTensors, makers: Mapping[str, Function]) -> Iterator[Line]:
    function = table.functions[name]
    parents = parents_in(function)
    blocks = [block for block in table.blocks if block in parents]
    if len(blocks) != 1 or not _outlives(function, blocks[0], parents):
        return
    block = blocks[0]
    last = block.end_lineno or block.lineno
    names = inside(function, ast.Name)
    captured = {ast.unparse(call.func) for call in inside(block, ast.Call)}
    for text in sorted(text for text in table.inputs if text.isidentifier()):
        bound = [node for node in own(function, ast.Assign) if text in map(place, node.targets)]
        # `mask /= n` modifies the tensor in place, so it is not a second binding.
        uses = [node for node in names if node.id == text and not isinstance(parents.get(node), ast.AugAssign)]
        stored = [node for node in uses if isinstance(node.ctx, ast.Store)]
        if len(bound) != 1 or len(stored) != 1 or bound[0].lineno > block.lineno or not _makes(bound[0].value, makers):
            continue
        read = [node for node in uses if node not in stored]
        if all(node in parents and node.lineno <= last and _is_given(node, parents, captured) for node in read):
            yield Line(name, "freed", bound[0], text)


def _outlives(function: Function, block: CaptureBlock, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether the graph outlives the function: an attribute holds the graph, or the function returns it."""
    graph = next(iter(graphs_of(block)), None)
    if graph is None or any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in parents):
        return False
    kept = [node.value for node in own(function, ast.Return) if node.value is not None]
    for node in parents:
        holder, held = put(node)
        pairs = [*bindings(node)] if isinstance(node, ast.Assign) else [(holder, part) for part in held]
        for target, value in pairs:
            if (place(target) or entry(target) or "" if target is not None else "").startswith("self."):
                kept.append(value)
    returned = {one.id for value in kept for one in inside(value, ast.Name)}
    closures = [node for node in inside(function, ast.FunctionDef) if node.name in returned]
    return graph.startswith("self.") or any(
        place(one) == graph for part in (*kept, *closures) for one in ast.walk(part) if isinstance(one, ast.expr)
    )


def _makes(value: ast.expr, makers: Mapping[str, Function]) -> bool:
    """Return whether an expression makes a tensor to which nothing else refers. Examples are `torch.arange(n)`, and a
    call of a function that is defined in the same file and computes its result."""
    # This loop is for chains such as `torch.ones(n, n).tril()` and `(a >= b).float()`.
    is_tensor = False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and dotted(value.func) is None:
        value, is_tensor = value.func.value, True
    if isinstance(value, (ast.BinOp, ast.Compare)):
        parts = [value.left, value.right] if isinstance(value, ast.BinOp) else []
        return is_tensor or any(_makes(part, makers) for part in parts)
    name = dotted(value.func) or "" if isinstance(value, ast.Call) else ""
    if name.startswith(_MAKES):
        return True
    maker = makers.get(name.removeprefix("self.")) if name else None
    if maker is None or maker.decorator_list:
        return False
    others = {name: node for name, node in makers.items() if node is not maker}
    returned = [node.value for node in own(maker, ast.Return)]
    return bool(returned) and all(
        one is not None and (isinstance(one, ast.BinOp) or _makes(one, others)) for one in returned
    )


def _is_given(node: ast.AST, parents: Mapping[ast.AST, ast.AST], captured: set[str]) -> bool:
    """Return whether a use of the tensor keeps no reference to the tensor. Such a use only compares or adds the tensor,
    or passes it to a function that the captured block also calls. A warm-up is such a call."""
    parent = parents[node]
    if isinstance(parent, ast.Compare) or (isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Sub))):
        return True  # unlike a product, a sum keeps no operand for a backward pass
    if isinstance(parent, ast.Attribute) and isinstance(parents.get(parents[parent]), ast.AugAssign):
        return True  # `mask /= mask.sum()`
    return isinstance(parent, ast.Call) and ast.unparse(parent.func) in captured
