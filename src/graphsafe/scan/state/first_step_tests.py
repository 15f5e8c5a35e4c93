"""Tests that only a first step or few steps pass, as in `if self.plan is None:`, and the conclusions about the code
around such an `if`."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from graphsafe.scan.execution.frame import LazyTest
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.state.first_step import (
    EMPTY,
    empty_tests,
    kept_keys,
    lazy_tests,
    replaced_setting,
    returned_if_there,
    size_tests,
)
from graphsafe.scan.state.provenance import capacity_tests, has_alternative
from graphsafe.scan.symbols.index import dotted

_SELDOM = re.compile(
    r"(^|_)every(_|$)|(^|_)(should|do|is|need|needs|time_to|must|perform)_(log|sav|eval|valid|checkpoint|print|dump|plot|report)"
)
"Matches names of tests that few iterations of a loop pass: `every_n_steps(…)`, `self.should_log`."
_INTERVAL = re.compile(
    r"(^|_)(interval|every|freq|frequency|period|(steps|iters|epochs)_per_(eval|sav|log|val|test|checkpoint|plot)\w*)(_|$)"
)
"""Matches names of intervals with which a test in a loop compares a difference: `step - last >= config.interval`,
`step_check(step, config.steps_per_eval_batch)`."""
_DIVISOR = re.compile(r"(^|_)(ratio|gap|each|steps?|iters?)$")
"Matches further names of intervals that divide a step counter: `step % config.update_ratio == 0`."
_COUNTER = re.compile(r"(^|_)(steps?|iter(ation)?s?|updates?|epochs?|counter|batch_idx)(_|$)")
"Matches names of step counters: `self.step % 100 == 0`, `batch_idx == 0`."
_BEGINS_AGAIN = re.compile(r"acc|micro|sub")
"Matches names of counters that return to 0 in every step of the optimizer: `acc_step == 0`."
_ROUND = re.compile(r"^(i|t|it|idx|token)$")
"Matches names of counters of the iterations of a loop: `token == 0`."
_LISTED = re.compile(
    r"(^|_)(eval\w*|val\w*|test(ing)?|sav(e|ing)|log\w*|checkpoint\w*|ckpt|plot\w*|vis\w*|report\w*)_(steps|iters|iterations|epochs)$"
)
"Matches names of lists of steps after which a loop saves, shows or evaluates: `step in cfg.eval_steps`."
_MODE = re.compile(r"(^|_)(mode|split|stage|phase|partition|subset|prefix)$")
"Matches names that say what a call is for: `if mode == 'dev' or mode == 'test':`."
_EVALUATIONS = frozenset("dev test testing val valid validate validation eval evaluate evaluation".split())
_LONG = 10
"An action whose runs are at least this many steps apart counts as running only from time to time."
CALLED_SELDOM = re.compile(
    r"(^|[._])(eval|evaluate|evaluation|validate|validation|validate_epoch|evaluate_\w*(model|policy|set)|\w+_evaluation"
    r"|(val|valid|validation|eval|evaluation)_(step|epoch|loop|batch)"
    r"|(launch|run|do|maybe)_(eval\w*|valid\w*)|(save|plot|export|checkpoint|visuali[sz]e)(_\w+)?|log_(images?|videos?)"
    r"|\w*(Checkpoint(er|Manager|Saver|IO)|Evaluator|Visualizer|Dataset)\.\w+)$"
)
"Matches names of functions that save, show or evaluate. A step loop calls these from time to time."


_SHOWS = re.compile(r"(^|[._])((visuali[sz]e|plot)(_\w+)?|\w*(Visuali[sz]er|Plotter)\.\w+)$")
"Matches names of functions that draw pictures. Few steps call these, whether or not the caller contains the loop."


@lru_cache(maxsize=4096)
def draws_pictures(name: str) -> bool:
    return _SHOWS.search(name) is not None


@memoize_on_node
def asks_remainder(test: ast.expr) -> bool:
    """Return whether a test is `step % 100 == 0`, perhaps with more conditions. Few iterations of a loop pass such a
    test."""
    return asks_by_name(test) or any(
        _is_first(inner, _ROUND) or (isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mod))
        for inner in ast.walk(test)
    )


def _is_first(node: ast.AST, counter: re.Pattern[str]) -> bool:
    """Return whether an expression is `step == 0`, for a counter with such a name."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq):
        return False
    name = (dotted(node.left) or "").rpartition(".")[2]
    counts = counter.search(name) is not None and _BEGINS_AGAIN.search(name) is None
    return counts and ast.unparse(node.comparators[0]) == "0"


def asks_entry_for_first(test: ast.expr) -> bool:
    """Return whether a test is `group["step"] == 0`.

    An optimizer's counter does not begin again, unlike a counter of a trainer or an environment. So after the warm-up,
    neither a capture nor a replay passes the test.
    """
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Subscript):
        return False
    is_counter = _COUNTER.search(_last_name(test.left)) is not None
    return is_counter and isinstance(test.ops[0], ast.Eq) and ast.unparse(test.comparators[0]) == "0"


def _names_listed(node: ast.expr) -> bool:
    names = [dotted(one) or "" for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Attribute))]
    return any(_LISTED.search(name.rpartition(".")[2]) for name in names)


def _is_interval(node: ast.expr) -> bool:
    return _INTERVAL.search(_last_name(node)) is not None


def _last_name(node: ast.expr) -> str:
    key = node.slice if isinstance(node, ast.Subscript) else None  # config["log_every"]
    name = str(key.value) if isinstance(key, ast.Constant) else dotted(node) or ""
    return name.rpartition(".")[2]


def _is_last(test: ast.expr) -> bool:
    """Return whether a test is `step == steps - 1`, for a counter with such a name."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    return _COUNTER.search((dotted(test.left) or "").rpartition(".")[2]) is not None


@memoize_on_node
def asked_for_tensor(test: ast.expr) -> ast.expr | None:
    """Return `x` if a test is `not torch.is_tensor(x)` or `not isinstance(x, torch.Tensor)`, otherwise None. Most calls
    in a step pass a tensor, so the branch does not run.
    """
    call = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None
    if not isinstance(call, ast.Call) or not call.args:
        return None
    name, last = dotted(call.func) or "", (dotted(call.args[-1]) or "").rpartition(".")[2]
    asks = name.rpartition(".")[2] == "is_tensor" or (name == "isinstance" and last == "Tensor")
    return call.args[0] if asks else None


def _finds_no_number(test: ast.expr) -> bool:
    """Return whether a test is true only for results that are not finite numbers. Few steps have such results:
    `isnan(loss).any()`, `(~torch.isfinite(loss)).any()`, `not torch.isfinite(loss)`."""
    while isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and not test.args:
        test = test.func.value  # .any(), .all(), .item()
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, (ast.Not, ast.Invert)):
        return _asks(test.operand, "isfinite")
    return _asks(test, "isnan") or _asks(test, "isinf")


def _asks(test: ast.expr, name: str) -> bool:
    return any((dotted(call.func) or "").rpartition(".")[2] == name for call in inside(test, ast.Call))


@memoize_on_node
def asks_by_name(test: ast.expr) -> bool:
    """Return whether few steps pass a test, judging by the names in it. A step that passes the test may log, save or
    evaluate, or may be the first step or a failing step: `every_n_steps(state, 10)`, `batch_idx == 0`,
    `isnan(loss)`."""
    if isinstance(test, ast.BoolOp):
        rare = [part for part in test.values if asks_by_name(part)]
        # Code that logs every 10 steps often logs the last step too.
        return bool(rare) and (isinstance(test.op, ast.And) or all(one in rare or _is_last(one) for one in test.values))
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE)):
        return _is_interval(test.comparators[0])
    if _is_first(test, _COUNTER) or _finds_no_number(test):
        return True
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In) and _names_listed(test.comparators[0]):
        return True  # step in eval_steps, or step in [at - 1 for at in eval_steps]
    if isinstance(test, ast.Compare) and not isinstance(test.ops[0], ast.NotEq) and _is_remainder(test.left):
        return True
    if isinstance(test, ast.Call) and any(map(_is_interval, test.args[1:])):
        return True  # divisible_by(step, self.log_every)
    name = dotted(test.func if isinstance(test, ast.Call) else test) or ""
    return _asks_for_evaluation(test) or _SELDOM.search(name.rpartition(".")[2]) is not None


def _asks_for_evaluation(test: ast.expr) -> bool:
    """Return whether a test is `mode == "test"` or `split in ("dev", "test")`. Calls that train do not pass it."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.In)):
        return False
    asked = test.comparators[0]
    words = asked.elts if isinstance(asked, (ast.Tuple, ast.List, ast.Set)) else [asked]
    return (
        bool(words)
        and all(isinstance(one, ast.Constant) and one.value in _EVALUATIONS for one in words)
        and _MODE.search(_last_name(test.left).lower()) is not None
    )


@memoize_on_node
def fails_by_name(test: ast.expr) -> bool:
    """Return whether few steps fail a test, judging by the names in it: `not self.should_log`, `step % every != 0`."""
    if isinstance(test, ast.BoolOp):
        return (any if isinstance(test.op, ast.Or) else all)(map(fails_by_name, test.values))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks_by_name(test.operand)
    if isinstance(test, ast.Compare):
        right = test.comparators[0]
        differs = isinstance(test.ops[0], (ast.NotEq, ast.Gt)) and isinstance(right, ast.Constant)
        return (differs and _is_remainder(test.left)) or (isinstance(test.ops[0], ast.NotIn) and _names_listed(right))
    return _is_remainder(test)


def _is_remainder(node: ast.expr) -> bool:
    """Return whether an expression is `step % self.log_every`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return False
    names = [dotted(one) or "" for one in ast.walk(node.left) if isinstance(one, (ast.Name, ast.Attribute))]
    interval = node.right
    is_long = isinstance(interval, ast.Constant) and isinstance(interval.value, int) and interval.value >= _LONG
    counts = any(_COUNTER.search(name.rpartition(".")[2]) for name in names)
    name = _last_name(interval)
    divides = _DIVISOR.search(name) is not None and _BEGINS_AGAIN.search(name) is None
    return counts and (is_long or divides or _is_interval(interval))


@memoize_on_node
def around_branch(node: ast.If, branch: bool) -> tuple[LazyTest, ...]:
    """Return the first-step tests that lead to a branch."""
    alone = not branch or not has_alternative(node.test)
    found = [LazyTest(text, node.lineno, alone) for text in lazy_tests(node.test, branch)]
    found += [LazyTest(f"size of {text}", node.lineno) for text in size_tests(node.test, branch)]
    found += [LazyTest(f"{EMPTY}{text}", node.lineno) for text in empty_tests(node.test, branch)]
    if branch:
        found += [LazyTest(text, node.lineno) for text in capacity_tests(node.test)]
        found += [LazyTest(text, node.lineno) for text in (replaced_setting(node),) if text is not None]
    return tuple(found)


@memoize_on_node
def joined(node: ast.If) -> ast.If | None:
    """Return `if a and b: return` for `if a:`, if its only statement is `if b: return`."""
    inner = node.body[0]
    if len(node.body) > 1 or node.orelse or not isinstance(inner, ast.If) or inner.orelse:
        return None
    if not isinstance(inner.body[-1], ast.Return):
        return None
    return ast.copy_location(ast.If(ast.BoolOp(ast.And(), [node.test, inner.test]), inner.body, []), node)


def after_leaving(node: ast.If, branch: bool) -> tuple[LazyTest, ...]:
    """Return the first-step tests that lead to the code after an `if`, because a branch leaves the function: `if
    self.plan is not None: return self.plan`."""
    missing = [*lazy_tests(node.test, not branch), *capacity_tests(node.test)]
    missing += (*returned_if_there(node), *kept_keys(node.test)) if branch else ()
    missing += [f"{EMPTY}{text}" for text in empty_tests(node.test, not branch)]
    # After `if not (refresh or self.plan is None): return`, the value may be there too.
    is_negated = branch and isinstance(node.test, ast.UnaryOp)
    alone = not is_negated or not has_alternative(node.test)
    return tuple(LazyTest(text, node.lineno, alone) for text in missing)
