"""Calls that take a step by themselves: a replay, a backward pass, the step of an optimizer, the run of a model."""

from __future__ import annotations

import ast
import re
from typing import Literal

from graphsafe.scan.hazards.graph_syntax import is_replay
from graphsafe.scan.roots.step_names import ENGINE_STEPS, MODEL_CALL
from graphsafe.scan.symbols.index import dotted

Strength = Literal["replays", "trains", "runs"]
"""The ways in which a function takes a step. The most certain way comes first. A function that only runs a model may do
so once, or for an evaluation. So such a function takes a step only if a loop calls it."""

_OPTIMIZER = re.compile(r"(?:^|[._])(?:opt|optim|optimi[sz]er|scaler)\w*$")
_ENVIRONMENT = re.compile(r"(?:^|[._])(?:vec_?)?envs?$")


def strength_of(call: ast.Call) -> Strength | None:
    """Return the way in which a call itself takes a step, or None."""
    if is_replay(call):
        return "replays"
    function = call.func
    if isinstance(function, ast.Attribute):
        if function.attr in ENGINE_STEPS:
            return "replays"
        if function.attr == "backward":
            return "trains"
        if function.attr == "step" and _OPTIMIZER.search(dotted(function.value) or ""):
            # `opt["scheduler"].step()` may run once an epoch.
            return None if "sched" in ast.unparse(function.value) else "trains"
        if function.attr == "step" and _ENVIRONMENT.search(dotted(function.value) or ""):
            return "runs"
    # `autograd.grad` alone may compute the forces in a model's forward pass.
    name = dotted(function) or ""
    return "runs" if MODEL_CALL.fullmatch(name) or name.endswith("autograd.grad") else None
