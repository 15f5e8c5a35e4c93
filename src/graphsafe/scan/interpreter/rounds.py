"""Loops around step loops. The other lines of such a loop run between the steps."""

from __future__ import annotations

import ast
import re

from graphsafe.scan.domain.values import ClassValue, Instance, Value
from graphsafe.scan.domain.values import Function as FunctionValue
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import Function, called_name, loop_around, parents_in
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

_MAKES = re.compile("^_*([A-Z]|build|make|create|init|load|compile)|captur|warm")
"Matches the names of classes, and of functions that make objects or graphs."


def note_steps(frame: Frame, node: ast.AST) -> None:
    """Record whether lines outside of loops run between two calls of a function with steps. This is so if the script
    makes the same call again later: `engine.run(first); engine.update(); engine.run(second)`."""
    body = frame.node
    if not isinstance(body, Function) or not isinstance(node, ast.Call):
        return
    if loop_around(node, parents_in(body)) is None:
        later = (call for call in inside(body, ast.Call) if call.lineno > node.lineno)
        frame.between = any(dotted(call.func) == dotted(node.func) for call in later)


def holds_steps(frame: Frame, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Return whether a loop contains the step loop. Also return True for a script's loop that calls a function with a
    step loop, unless the loop makes objects or graphs anew."""
    last = loop.end_lineno or loop.lineno
    if any(loop.lineno < first <= last for first in frame.step_loops):
        return True
    calls = inside(loop, ast.Call) if frame.composes else ()
    # `engine.load_adapter(path)`, without a use of its result, changes an object.
    changing = {one.value for one in inside(loop, ast.Expr)}
    making = [one for one in calls if _MAKES.search(called_name(one)) and not (one in changing and _loads(one))]
    made = (frame.evaluate_quietly(call.func) for call in making)
    if any(type(one) is not ClassValue or _takes_steps(frame, one.ref) for one in made):
        return False
    called = (_function(frame, frame.evaluate_quietly(call.func)) for call in calls)
    return any(ref is not None and frame.engine.loops_of(ref) is not None for ref in called)


def _function(frame: Frame, value: Value) -> str | None:
    """Return the function that a call of this value runs, or None."""
    if type(value) is Instance:
        return frame.project.find_method(value.ref, "__call__")
    return value.ref if type(value) is FunctionValue else None


def _loads(call: ast.Call) -> bool:
    return called_name(call).lstrip("_").startswith("load")


def _takes_steps(frame: Frame, cls: str) -> bool:
    """Return whether a class is more than a record: a method of it captures or takes a step, or it has a base class
    outside the project."""
    project = frame.project
    for owner in project.mro(cls):
        facts = project.class_facts(owner)
        if facts is None:
            return True
        refs = [f"{owner.partition('::')[0]}::{name}" for name in facts.methods.values()]
        known = map(project.function_facts, refs)
        if any(one is not None and one.captures for one in known) or any(
            frame.engine.loops_of(ref) is not None for ref in refs
        ):
            return True
    return False
