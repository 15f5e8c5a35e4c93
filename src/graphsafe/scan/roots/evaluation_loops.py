"""Functions and loops that evaluate a model. They do not count as steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from graphsafe.scan.hazards.graph_syntax import LOOPS, MEASURES, ancestors, called_name, calls_in
from graphsafe.scan.symbols.index import dotted

_BESIDE_STEPS = re.compile(
    r"(?<![^\W_])(eval\w*|valid\w*|score|predict|metrics?|calibrat\w*|export|convert|demo)(?![^\W_])"
)
"Matches words in names of functions that run a model outside steps."
_EVALUATES = re.compile(r"(?<![^\W_])(tests?|eval\w*|valid\w*)(?![^\W_])")
"Matches words in names of functions that evaluate a model."
_TRAINS = re.compile(r"(?<![^\W_])train(?![^\W_])")
"Matches names such as `train_and_evaluate`."
_VALIDATION = re.compile(r"(^|_)(val|valid|validation|eval|test)_?(data)?_?(loader|set|batches|dataset)s?$", re.I)
_WITHOUT_GRADIENTS = "no_grad", "inference_mode"


def is_beside_steps(name: str, replays: bool = False) -> bool:
    """Return whether a name shows that a function runs a model outside steps. Users do not capture graphs in such
    functions."""
    is_step = replays or _TRAINS.search(name) is not None
    return MEASURES.search(name) is not None or (not is_step and _BESIDE_STEPS.search(name) is not None)


def is_named_evaluation(name: str) -> bool:
    return _EVALUATES.search(name) is not None


def is_over_validation_data(loop: ast.stmt) -> bool:
    """Return whether a loop iterates over validation data: `for batch in val_loader`."""
    return isinstance(loop, ast.For) and any(
        _VALIDATION.search(name) is not None
        for one in ast.walk(loop.iter)
        if isinstance(one, (ast.Name, ast.Attribute)) and (name := (dotted(one) or "").rpartition(".")[2])
    )


def is_for_evaluation(loop: ast.stmt, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a loop over data evaluates the model, in a function that trains in another loop. Such a loop is
    inside `with torch.no_grad():`, or after `model.eval()`. A loop over `range(…)` is excluded, because it may be a
    rollout, which is a part of the step."""
    if not isinstance(loop, ast.For) or any(called_name(call) == "range" for call in calls_in([loop.iter])):
        return False
    around = list(ancestors(loop, parents))
    entered = (item.context_expr for one in around if isinstance(one, ast.With) for item in one.items)
    if any(isinstance(one, ast.Call) and called_name(one) in _WITHOUT_GRADIENTS for one in entered):
        return True
    first = next((one.lineno for one in around if isinstance(one, LOOPS)), 0)
    modes = [
        (call.lineno, called_name(call) == "eval" or (bool(call.args) and ast.unparse(call.args[0]) == "False"))
        for call in parents
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and called_name(call) in ("eval", "train")
        and first < call.lineno < loop.lineno
    ]
    return bool(modes) and max(modes)[1]
