"""Kinds of loops: loops whose iterations are steps, loops that evaluate a model, and loops that generate a sequence.

Functions that evaluate do not count as steps, and neither do functions that receive the length of a whole result.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    MEASURES,
    ancestors,
    arguments_of,
    called_name,
    calls_in,
    is_short,
)
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import FileIndex, dotted
from graphsafe.scan.symbols.project import Project

Body = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
LENGTHS = "max_new_tokens", "num_inference_steps", "stopping_criteria"
"Parameters of functions that generate a whole result. They limit the length of the result."
_ENDED = re.compile(r"(?<![^\W_])(un)?(finished|eos|eot|(end|stop)_?(id|tok(en)?)s?)(?![^\W_])", re.I)
"Matches words in names of values that show which sequences are complete."
_BESIDE_STEPS = re.compile(
    r"(?<![^\W_])(eval\w*|valid\w*|score|predict|metrics?|calibrat\w*|export|convert|demo)(?![^\W_])"
)
"Matches words in names of functions that run a model outside steps."
EVALUATES = re.compile(r"(?<![^\W_])(tests?|eval\w*|valid\w*)(?![^\W_])")
"Matches words in names of functions that evaluate a model."
_TRAINS = re.compile(r"(?<![^\W_])train(?![^\W_])")
"Matches names such as `train_and_evaluate`."
_VALIDATION = re.compile(r"(^|_)(val|valid|validation|eval|test)_?(data)?_?(loader|set|batches|dataset)s?$", re.I)


def loop_of(call: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> ast.stmt | None:
    """Return the innermost loop around a call. `for g in graphs: g.replay()` is skipped, because its iterations form
    one step. `for _ in range(4): graph.replay()` is returned only if there is no other loop around it."""
    receiver = (dotted(call.func) or "").partition(".")[0]
    repeated: ast.stmt | None = None
    child: ast.AST = call
    for around in ancestors(call, parents):
        if isinstance(around, LOOPS) and child is not getattr(around, "iter", None):
            target = getattr(around, "target", None)
            turned = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)} if target is not None else ()
            if receiver not in turned and (
                repeated is not None or not (is_short(around) and only_repeats(around, call))
            ):
                return around
            repeated = repeated or (around if receiver not in turned else None)
        child = around
    return repeated


def only_repeats(loop: ast.stmt, call: ast.Call) -> bool:
    """Return whether a loop only repeats one call, with nothing new in each iteration. Such a loop is a part of one
    step."""
    body = loop.body if isinstance(loop, LOOPS) else []
    is_alone = len(body) == 1 and isinstance(body[0], ast.Expr) and body[0].value is call
    return is_alone and not any(inside(one, ast.Call) for one in arguments_of(call))


# evaluations


def is_beside_steps(name: str, replays: bool = False) -> bool:
    """Return whether a name shows that a function runs a model outside steps. Users do not capture graphs in such
    functions."""
    is_step = replays or _TRAINS.search(name) is not None
    return MEASURES.search(name) is not None or (not is_step and _BESIDE_STEPS.search(name) is not None)


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
    if any(isinstance(one, ast.Call) and called_name(one) in ("no_grad", "inference_mode") for one in entered):
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


# generations


def ends_with_sequence(loop: ast.stmt) -> bool:
    """Return whether a loop ends as soon as the sequences are complete: `if finished.all(): break`."""
    tests = [*_tests_of_ends(getattr(loop, "body", ())), *([loop.test] if isinstance(loop, ast.While) else ())]
    return any(_ENDED.search(ast.unparse(test)) is not None for test in tests)


def _tests_of_ends(body: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield the tests of the branches that leave a loop, given the body of the loop."""
    waiting = [*body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and any(isinstance(one, ast.Break) for one in node.body):
            yield node.test
        if not isinstance(node, (*LOOPS, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def takes_length(project: Project, file: FileIndex, name: str) -> bool:
    """Return whether a function receives the length of the result, or passes it to another function."""
    facts = file.functions[name]
    lines = project.files.source(file.path).lines_of(facts.line, facts.end_line)
    node = project.function_node(f"{file.path}::{name}") if any(map(names_length, lines)) else None
    if node is None:
        return False
    words = [one.arg for one in inside(node.args, ast.arg)]
    words += [word.arg or "" for call in inside(node, ast.Call) for word in call.keywords]
    return any(word in LENGTHS for word in words)


def names_length(text: str) -> bool:
    return any(word in text for word in LENGTHS)


def turning(body: Body) -> Iterator[int]:
    """Yield the first lines of the outer loops of a function that receives the length of the result. These are `while`
    loops, and `for` loops over the length."""
    waiting: list[ast.AST] = [*body.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.While) or (isinstance(node, ast.For) and names_length(ast.unparse(node.iter))):
            yield node.lineno
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor)):
            waiting += ast.iter_child_nodes(node)
