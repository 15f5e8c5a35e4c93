"""The values that a line puts into a container: `kept.append(y)`, `kept[key] = y`, `kept.update({key: y})`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set

from graphsafe.scan.hazards.graph_syntax import VIEWS, Function, own_nodes, viewed
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.symbols.index import dotted, elements

KEEPS = frozenset(("append", "appendleft", "add", "put", "insert", "update"))
Parents = Mapping[ast.AST, ast.AST]


def put(node: ast.AST, methods: Set[str] = KEEPS) -> tuple[ast.expr | None, Sequence[ast.expr]]:
    """Return the container into which a line puts values (or None), and the values: `kept.append(y)`, `kept[key] = y`,
    `kept.update({key: y})`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
        return node.func.value, _entries(node) if node.func.attr == "update" else node.args
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Slice, ast.Tuple)):
        assert isinstance(node, ast.Assign)
        return target.value, [node.value]
    return None, ()


def _entries(call: ast.Call) -> Sequence[ast.expr]:
    """Return the values that `kept.update({key: y})` stores. Values under constant keys are left out, because the next
    iteration replaces them."""
    given = call.args[0] if call.args else None
    pairs = zip(given.keys, given.values, strict=True) if isinstance(given, ast.Dict) else ()
    return [value for key, value in pairs if key is not None and not isinstance(key, ast.Constant)]


def shown(value: ast.expr, parents: Parents) -> str | None:
    """Return the name whose memory an expression shares: `y` for `y[0]`, and for `y[i]` if `i` is the counter of a
    loop."""
    if isinstance(value, ast.Subscript):
        index = value.slice
        if isinstance(index, ast.Constant) or (isinstance(index, ast.Name) and _counts(index.id, parents)):
            value = value.value
    return viewed(value)


def _counts(name: str, parents: Parents) -> bool:
    for node in parents:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
            maker = dotted(node.iter.func)
            first = elements(node.target)[0] if maker == "enumerate" else node.target
            if maker in ("enumerate", "range") and isinstance(first, ast.Name) and first.id == name:
                return True
    return False


def only_reads(found: Tables, method: str) -> bool:
    """Return whether the file defines methods with this name and none of them keeps its arguments: they only copy them,
    `self.rows[i].copy_(row)`, or compute with them."""
    same = [node for name, node, _ in found.functions if name.endswith(f".{method}")]
    return bool(same) and all(map(_only_reads, same))


def _only_reads(method: Function) -> bool:
    given = {argument.arg for argument in method.args.args[1:]}
    uses = [parent for parent, node in own_nodes(method) if isinstance(node, ast.Name) and node.id in given]
    return all(map(_computes, uses))


def _computes(use: ast.AST) -> bool:
    """Return whether the node around a tensor computes with it: an operator, a method that gives a new tensor, or a
    call that changes another tensor in place."""
    if isinstance(use, ast.Call):
        return isinstance(use.func, ast.Attribute) and use.func.attr.endswith("_")
    is_new = isinstance(use, ast.Attribute) and use.attr not in VIEWS and use.attr != "data"
    return is_new or isinstance(use, (ast.BinOp, ast.Compare))
