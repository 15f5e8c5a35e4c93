"""Finds lines that replace a module after a capture has used it. The graph keeps using the old weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.report.model import Confidence
from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    arguments_of,
    called_name,
    calls_in,
    is_host,
    is_plain_replay,
    own,
    own_nodes,
    place,
    runs_beside,
)
from graphsafe.scan.hazards.graph_tensors import CONSTRUCTORS, GraphTensors, Tables
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted


def lines(found: Tables) -> Iterator[Line]:
    for table in found.all:
        yield from _replaced(found, table)


def _replaced(found: Tables, table: GraphTensors) -> Iterator[Line]:
    """Yield lines that replace a module of the captured block: `self.policy = copy.deepcopy(learner)`.

    Such a line is reported in two cases, unless its method drops the graph. In the first case, a loop calls both the
    method that contains the line and a replaying method. In the second case, the constructor made the old module.
    """
    called = {place(call.func) for call in table.captured_calls}
    called |= {text for text, name in _kept_arguments(table) if name in called}
    given = {place(argument) for call in table.captured_calls for argument in arguments_of(call)}
    replaying = {name.rpartition(".")[2] for name in table.replaying}
    for name, function in table.functions.items() if replaying else ():
        if name in table.preparing or name in table.capturing or function in table.captured:
            continue
        made = {
            place(one.targets[0]): one.value for one in own(function, ast.Assign) if isinstance(one.value, ast.Call)
        }
        for node in own(function, ast.Assign):
            value = made.get(place(node.value)) if isinstance(node.value, ast.Name) else node.value
            text = place(node.targets[0]) if isinstance(value, ast.Call) else None
            if value is None or text is None or text not in (called | given if _is_copy(value) else called):
                continue
            if _drops_graph(table, function, text):
                continue
            if runs_beside(found.tree, name.rpartition(".")[2], replaying):
                yield Line(name, "weights-rebound", node, ast.unparse(node))
            elif (
                _made_before(table, text)
                and not any(place(part) == text for part in inside(node.value, ast.Attribute))
                and _may_run_later(found, table, name.rpartition(".")[2])
            ):
                follows = _follows_replay(table, name.rpartition(".")[2])
                when = "likely" if follows else _captured(table)
                if when is not None:
                    yield Line(name, "weights-rebound", node, ast.unparse(node), when)


def _kept_arguments(table: GraphTensors) -> Iterator[tuple[str, str]]:
    """Yield the attributes to which constructors that capture assign their arguments, with the arguments' names:
    `self.net = net`."""
    for function in (table.functions[name] for name in table.capturing & table.preparing):
        for node in own(function, ast.Assign) if function.name in CONSTRUCTORS else ():
            text = place(node.targets[0])
            if text is not None and isinstance(node.value, ast.Name):
                yield text, node.value.id


def _is_copy(value: ast.expr) -> bool:
    """Return whether an expression is a copy of a whole object: `copy.deepcopy(net).eval()`."""
    return any(called_name(call) == "deepcopy" for call in inside(value, ast.Call))


def _follows_replay(table: GraphTensors, method: str) -> bool:
    """Return whether a function replays, and then calls a method of its object."""
    for function in (table.functions[name] for name in table.replaying - table.capturing):
        calls = calls_in(function.body)
        replays = [call.lineno for call in calls if is_plain_replay(call)]
        if any(
            dotted(call.func) == f"self.{method}" and call.lineno > min(replays, default=call.lineno) for call in calls
        ):
            return True
    return False


def _captured(table: GraphTensors) -> Confidence | None:
    """Return the confidence that the capture comes before the replacement of a module. It is `likely` if a constructor
    captures. It is `possible` if the first replaying call captures, because the module may be replaced before this
    call. Return None if the code does not show when captures happen."""
    before: Confidence = "likely"
    methods = {name.rpartition(".")[2] for name in table.capturing} - CONSTRUCTORS
    for method in methods:
        callers = [
            name
            for name, function in table.functions.items()
            if any(dotted(call.func) == f"self.{method}" for call in calls_in([function]))
        ]
        if any(name.rpartition(".")[2] in CONSTRUCTORS for name in callers):
            continue
        if not any(name in table.replaying for name in (*callers, *table.capturing)):
            return None
        before = "possible"
    return before


def _made_before(table: GraphTensors, module: str) -> bool:
    """Return whether a constructor makes the module. If another method assigns the module, this method replaces it."""
    constructors = [node for name, node in table.functions.items() if name.rpartition(".")[2] in CONSTRUCTORS]
    assigned = [node for function in constructors for node in own(function, ast.Assign)]
    return any(module in map(place, node.targets) and not is_host(node.value) for node in assigned)


def _drops_graph(table: GraphTensors, function: Function, module: str) -> bool:
    """Return whether a method may drop the graph or capture again. This is assumed if the method changes state on which
    captures and replays depend, or calls another method of its object."""
    asked = {text for one in table.functions.values() for text in _asked(one)}
    methods = {name.rpartition(".")[2] for name in table.functions}
    for _, node in own_nodes(function):
        is_changed = isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
        if is_changed and any(place(part) in asked - {module} for part in inside(node, ast.Attribute)):
            return True
        holder, _, name = (dotted(node.func) or "").rpartition(".") if isinstance(node, ast.Call) else ("", "", "")
        if holder in asked - {module} or (holder == "self" and name in methods):
            return True
    return False


def _asked(function: Function) -> Iterator[str | None]:
    """Yield the attributes in the conditions, the replays and the `with` statements of a function."""
    for _, node in own_nodes(function):
        parts: list[ast.expr] = [node.test] if isinstance(node, (ast.If, ast.While, ast.IfExp)) else []
        parts += [item.context_expr for item in node.items] if isinstance(node, (ast.With, ast.AsyncWith)) else []
        parts += [node.func] if is_plain_replay(node) else []
        yield from (place(inner) for part in parts for inner in inside(part, ast.Attribute))


def _may_run_later(found: Tables, table: GraphTensors, method: str) -> bool:
    """Return whether a method may run after the capture: a replaying method calls it, or no code in this file calls
    it."""
    beside = [function for name, function in table.functions.items() if name in table.replaying]
    everywhere = calls_in([found.tree])
    return all(called_name(call) != method for call in everywhere) or any(
        called_name(call) == method for call in calls_in(beside)
    )
