"""Finds changes around a captured training step that the graph does not see: dropped gradients and new learning rates.
Also finds captures that may fail unnoticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from graphsafe.scan.domain.held import FROZEN_OPTIONS
from graphsafe.scan.hazards.failure_handlers import Called, catches, swallows
from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    called_name,
    calls_in,
    captures_in,
    own,
    own_nodes,
    place,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, targets
from graphsafe.scan.hazards.outputs.givers import called_objects
from graphsafe.scan.hazards.owners import class_of, meant_in, of_one_object
from graphsafe.scan.hazards.weights.other_weights import is_optimizer_step
from graphsafe.scan.symbols.index import dotted

Owned = tuple[str, str]
"""The owner of a name, and the name. For an attribute of `self`, the owner is the class. For any other name, the owner
is an empty string."""


def lines(found: Tables) -> Iterator[Line]:
    for table in found.all:
        yield from _dropped_gradients(found, table)
    capturing = {name: node for name, node in found.by_name.items() if captures_in(node)}
    if any(_steps_optimizer(found, name, node) for name, node in capturing.items()):
        yield from _other_rates(found, set(capturing))
    yield from _swallowed(found, capturing)


def _dropped_gradients(found: Tables, table: GraphTensors) -> Iterator[Line]:
    """Yield calls of `opt.zero_grad()` near a replay that computes gradients, if the optimizer steps outside the graph.
    The call is in the function that replays, in a function that calls this one, or in another method of the same
    object. Such another method must not compute gradients itself, because these would be new tensors.
    """
    inside = table.captured_calls
    if not any(called_name(call) == "backward" for call in inside) or any(map(is_optimizer_step, inside)):
        return
    replaying = sorted(table.replaying - table.capturing)
    beside = {name: table.functions[name] for name in replaying}
    names = {name.rpartition(".")[2] for name in replaying} | {name for name, _ in called_objects(found, replaying)}
    names = {name for name in names if name != "__call__" and found.functions_called(name) <= 1}
    for name, function, _ in found.functions if names else ():
        if name not in table.functions and any(called_name(call) in names for call in calls_in(function.body)):
            beside[name] = function
    for name in sorted(table.functions.keys() - table.capturing - table.preparing) if table.replaying else ():
        if not any(called_name(call) == "backward" for call in calls_in(table.functions[name].body)):
            beside[name] = table.functions[name]
    for name, function in beside.items():
        calls = calls_in(function.body)
        for call in calls if any(map(is_optimizer_step, calls)) else ():
            given = [word.value for word in call.keywords if word.arg == "set_to_none"] or call.args
            drops = all(isinstance(one, ast.Constant) and one.value is True for one in given)
            if called_name(call) == "zero_grad" and drops:
                yield Line(name, "grads-dropped", call, ast.unparse(call))


# learning rates


def _steps_optimizer(found: Tables, name: str, function: Function) -> bool:
    """Return whether the captured block of a function steps an optimizer, itself or through a function of the file."""
    by_name = {
        **{name.rpartition(".")[2]: node for name, node, _ in found.functions},
        **meant_in(found, class_of(found, name)),
    }
    for block in captures_in(function):
        calls = calls_in(block.body)
        called = [by_name[last] for call in calls if (last := called_name(call)) in by_name]
        if any(map(is_optimizer_step, (*calls, *(call for other in called for call in calls_in(other.body))))):
            return True
    return False


def _other_rates(found: Tables, capturing: set[str]) -> Iterator[Line]:
    """Yield lines that change the learning rate of an optimizer's groups:
    `for group in opt.param_groups: group["lr"] = rate`."""
    schedules = {*_schedules(found)}
    for name, function, _ in found.functions:
        if name in capturing:
            continue
        for call in own(function, ast.Call):
            holder, _, method = (dotted(call.func) or "").rpartition(".")
            if method == "step" and not schedules.isdisjoint(_owned(found, name, holder)):
                yield Line(name, "rate-changed", call, ast.unparse(call.func))
        groups = {place(loop.target) for loop in own(function, ast.For) if _is_groups(loop.iter)} - {None}
        for _, node in own_nodes(function):
            target = next(iter(targets(node)), None)
            if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
                continue
            is_group = place(target.value) in groups or (
                isinstance(target.value, ast.Subscript) and _is_groups(target.value.value)
            )
            if is_group and target.slice.value in FROZEN_OPTIONS:
                assert isinstance(node, ast.stmt)
                yield Line(name, "rate-changed", node, ast.unparse(target))


def _schedules(found: Tables) -> Iterator[Owned]:
    """Yield the names of schedulers for an optimizer whose learning rate is not a tensor: `decay = ExponentialLR(opt,
    0.9)`."""
    made: dict[Owned, ast.Call] = {}
    for function, body in [("", found.tree), *((name, node) for name, node, _ in found.functions)]:
        for node in own(body, ast.Assign):
            text = place(node.targets[0])
            if text is not None and isinstance(node.value, ast.Call):
                made[_owned(found, function, text)[0]] = node.value
    for (cls, name), call in made.items():
        text = place(call.args[0]) if call.args else None
        optimizer = next((made[one] for one in _owned(found, cls, text or "") if one in made), None)
        if optimizer is None or ".lr_scheduler." not in f".{dotted(call.func)}":
            continue
        if not any(word.arg == "lr" and "ensor" in ast.unparse(word.value) for word in optimizer.keywords):
            yield cls, name


def _owned(found: Tables, function: str, name: str) -> Sequence[Owned]:
    """Return the possible owners of a name in a function, each with the name. An attribute of `self` may belong to
    several classes; the function's own class comes first."""
    if not name.startswith("self."):
        return [("", name)]
    return [(cls, name) for cls in of_one_object(found, class_of(found, function))]


def _is_groups(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "param_groups"


# failures


def _swallowed(found: Tables, capturing: dict[str, Function]) -> Iterator[Line]:
    """Yield the handlers that swallow a capture's failure because the capturing function is called inside `try` or
    `suppress`."""
    names = {name.rpartition(".")[2] for name in capturing}
    unique = {name for name in names if found.functions_called(name) == 1}
    for name, function, _ in found.functions if capturing else ():
        owner = name.rpartition(".")[0]
        methods = meant_in(found, class_of(found, name))
        captures = {f"self.{last}" for last in names if methods.get(last) in capturing.values()}
        for _, node in own_nodes(function) if name not in capturing else ():
            if not isinstance(node, (ast.Try, ast.With)):
                continue
            calls = (one for one in calls_in(node.body) if called_name(one) in unique or dotted(one.func) in captures)
            call = next(calls, None)
            ends = _ends(node, call, function, partial(_own, found.by_name, owner)) if call is not None else iter(())
            end = next(ends, None)
            if call is not None and end is not None:
                yield Line(name, "swallowed", end, ast.unparse(call))


def _own(functions: Mapping[str, Function], owner: str, call: ast.Call) -> Function | None:
    """Return the function of the file that a call runs: `fail(error)`, or `self.fail(error)` in a method of `owner`."""
    text = dotted(call.func) or ""
    return functions.get(f"{owner}.{text.removeprefix('self.')}" if text.startswith("self.") else text)


def _ends(node: ast.Try | ast.With, call: ast.expr, function: Function, called: Called) -> Iterator[ast.expr]:
    """Yield the places that swallow the failure of a capture: the exception type of a handler, or the surrounding
    `suppress(…)`."""
    if isinstance(node, ast.Try):
        yield from (one.type or call for one in node.handlers if catches(one.type) and swallows(one, function, called))
        return
    for item in node.items:
        around = item.context_expr
        if isinstance(around, ast.Call) and called_name(around) == "suppress" and any(map(catches, around.args)):
            yield around
