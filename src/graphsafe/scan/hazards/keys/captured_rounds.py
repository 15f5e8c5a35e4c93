"""Finds graphs that are captured anew in each iteration of a loop, for a single replay. Also finds buffers that become
smaller with each capture of a loop, although an outer loop captures all sizes again."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    Function,
    Line,
    called_name,
    calls_in,
    captures,
    is_capture,
    is_plain_replay,
    is_short,
    loop_around,
    own,
    own_nodes,
    parents_in,
    place,
    stored_names,
    with_statements,
)
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.hazards.owners import Functions, with_captures
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted


def lines(found: Tables) -> Iterator[Line]:
    for name, function, capturing in with_captures(found):
        yield from _in_each_round(name, function, capturing)
        yield from _narrowed(name, function, capturing)
        yield from _kept_alone(name, function, capturing)
        once = {last for last, node in capturing.items() if _replays_once(node) and found.functions_called(last) == 1}
        yield from _calls_in_each_round(name, function, once)


def _in_each_round(name: str, function: Function, capturing: Functions) -> Iterator[Line]:
    """Yield captures that a loop makes in each iteration and replays in the same iteration."""
    parents = parents_in(function)
    for loop in [node for node in parents if isinstance(node, LOOPS)]:
        for statement in loop.body:
            made = _made_here(statement, capturing)
            if made is None:
                continue
            later = loop.body[loop.body.index(statement) + 1 :]
            replays = [call for call in calls_in([statement, *later]) if is_plain_replay(call)]
            if any(loop_around(call, parents) is loop for call in replays):
                yield Line(name, "captured-again", made, ast.unparse(made))


def _narrowed(name: str, function: Function, capturing: Functions) -> Iterator[Line]:
    """Yield lines that, for each size, replace a buffer by a part of the buffer. In the next iteration of the outer
    loop, the largest size gets the smallest part."""
    parents = parents_in(function)
    for loop in own(function, ast.For):
        outer = loop_around(loop, parents)
        captured = any(map(captures, with_statements(loop)))
        if outer is None or not (captured or any(called_name(call) in capturing for call in calls_in([loop]))):
            continue
        sizes = {one.id for one in inside(loop.target, ast.Name)}
        within = {*ast.walk(loop)}
        stored = stored_names(node for node in ast.walk(outer) if node not in within)
        for node in inside(loop, ast.Assign):
            target, part = node.targets[0], node.value
            if isinstance(target, ast.Name) and isinstance(part, ast.Subscript) and target.id not in stored:
                bounds = {one.id for one in inside(part.slice, ast.Name)}
                if place(part.value) == target.id and isinstance(part.slice, ast.Slice) and bounds & sizes:
                    yield Line(name, "narrowed", node, target.id)


def _kept_alone(name: str, function: Function, capturing: Functions) -> Iterator[Line]:
    """Yield captures for a new key, if the same branch drops the graphs of all other keys. The key comes from an
    argument: `if n not in self.graphs: self.graphs.clear(); self.graphs[n] = self.capture(n)`."""
    for branch in own(function, ast.If):
        calls = [one.value for one in branch.body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]
        emptied = {(dotted(call.func) or "").removesuffix(".clear") for call in calls if called_name(call) == "clear"}
        tests = [one for one in inside(branch.test, ast.Compare) if isinstance(one.ops[0], ast.NotIn)]
        asked = {place(one.comparators[0]) for one in tests}
        for made in [one for one in branch.body if isinstance(one, ast.Assign)]:
            entry = made.targets[0]
            if (
                isinstance(entry, ast.Subscript)
                and place(entry.value) in emptied & asked
                and isinstance(made.value, ast.Call)
                and called_name(made.value) in capturing
                and _is_given(entry.slice, function)
            ):
                yield Line(name, "kept-alone", made.value, ast.unparse(made.value))


def _is_given(key: ast.expr, function: Function) -> bool:
    """Return whether a key is an argument or is computed from one. A stored version of the weights, for example, is
    neither."""
    known = {one.arg for one in inside(function.args, ast.arg)} - {"self", "cls"}
    for node in own(function, ast.Assign):
        if known & {one.id for one in inside(node.value, ast.Name)}:
            known |= stored_names(inside(node, ast.Name))
    return bool(known & {one.id for one in inside(key, ast.Name)})


def _calls_in_each_round(name: str, function: Function, once: Set[str]) -> Iterator[Line]:
    """Yield calls of functions that capture a graph and replay it once, if a loop makes the call in each iteration."""
    for loop in [node for _, node in own_nodes(function) if isinstance(node, LOOPS) and not is_short(node)]:
        plain = [one for one in loop.body if isinstance(one, (ast.Expr, ast.Assign, ast.AugAssign))]
        for call in calls_in(plain):
            if called_name(call) in once:
                yield Line(name, "captured-again", call, ast.unparse(call))


def _replays_once(function: Function) -> bool:
    """Return whether each call of a function captures a new graph, replays it outside loops, and drops it."""
    for position, statement in enumerate(function.body):
        if any(isinstance(inner, (ast.Return, ast.Yield)) for inner in ast.walk(statement)):
            return False
        call = _made_here(statement, {})
        graph = call.args[0] if isinstance(call, ast.Call) and call.args else None
        if isinstance(graph, ast.Name):
            uses = [name for name in inside(function, ast.Name) if name.id == graph.id]
            read = [name for name in uses if isinstance(name.ctx, ast.Load)]
            made_here = any(isinstance(name.ctx, ast.Store) for name in uses)
            replays = [one.value for one in function.body[position + 1 :] if isinstance(one, ast.Expr)]
            replayed = [one for one in replays if is_plain_replay(one) and place(one.func) == f"{graph.id}.replay"]
            return made_here and len(replayed) == 1 and len(read) == 2
    return False


def _made_here(statement: ast.stmt, capturing: Functions) -> ast.expr | None:
    """Return the capture that a statement makes unconditionally: a call, or the `torch.cuda.graph(…)` of a block."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        item = next(filter(is_capture, statement.items), None)
        return item.context_expr if item is not None else None
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    return value if isinstance(value, ast.Call) and called_name(value) in capturing else None
