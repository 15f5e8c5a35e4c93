"""Nested functions that train a model. A library defines such a function, and the training loop of the library's user
calls it:

def make_trainer(model, optimizer):
    def update(engine, batch):
        loss = model(batch)
        loss.backward()
        optimizer.step()
    return Engine(update)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.domain.record import LOOP
from graphsafe.scan.domain.values import Function
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import LOOPS
from graphsafe.scan.sources.node_memo import inside, memoize_on_node

_UPDATES = frozenset(("step", "zero_grad"))


def may_be_defined(data: bytes) -> bool:
    """Return whether a file may define such a function."""
    return b".backward(" in data and (b"\n    def " in data or b"\n\tdef " in data)


def defined_in(function: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield the nested functions of a function that train a model."""
    for nested in inside(function, ast.FunctionDef):
        if nested is not function and trains(nested):
            yield nested


def note(frame: Frame, closure: Function) -> None:
    """Make a root of a nested function that trains a model, if cold code defines it."""
    is_step = not frame.hot and trains(closure.node)
    if is_step and frame.function and not frame.engine.is_cold(frame.ref):
        frame.engine.add_root(closure.ref, closure, LOOP)


def trains(function: ast.AST | None) -> bool:
    """Return whether a function takes a batch, and runs a backward pass and an optimizer for it, once in each call."""
    return isinstance(function, ast.FunctionDef) and bool(function.args.args) and _updates(function)


@memoize_on_node
def _updates(function: ast.AST) -> bool:
    looped = {id(call) for kind in LOOPS for loop in inside(function, kind) for call in inside(loop, ast.Call)}
    calls = [call for call in inside(function, ast.Call) if id(call) not in looped]
    called = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}
    return "backward" in called and not called.isdisjoint(_UPDATES)
