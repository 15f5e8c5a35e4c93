"""Branches that few steps take, and statements that report a problem."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence

from graphsafe.scan.domain.naming import last_name
from graphsafe.scan.domain.values import Sequence as SequenceValue
from graphsafe.scan.domain.values import Tensor, Unknown, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.state import provenance
from graphsafe.scan.state.first_step_tests import (
    asked_for_tensor,
    asks_by_name,
    asks_remainder,
    fails_by_name,
)
from graphsafe.scan.symbols.index import dotted

_WARNING = re.compile(r"(^|\.)(warnings\.warn|\w*log(ger|ging)?\.(warn(ing)?(_once)?|error|critical|exception))$", re.I)

_PRINTED_WARNING = re.compile(r"\W*warn(ing)?\b", re.I)

_LOGS = re.compile(r"(?<![^\W_])(log|logging|print|report|display|plot)(?![^\W_])", re.I)
"Matches words in the name of the number of steps between two logs."

_INPUTS = re.compile(r"(^|\.)(query_viewer_action_events|event\.get|(poll|get)_events)$")
"Matches names of functions that return what a person has done."

_LEAVES = ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom


def is_rare(frame: Frame, node: ast.If) -> bool:
    """Return whether few steps take a branch. Many branches of a step loop log, save or evaluate from time to time."""
    asks_rarely = asks_remainder if frame.step_loops else asks_by_name
    # Outside a loop, such a flag marks the first step, whose results later steps may keep.
    is_once = bool(frame.step_loops) and _clears_its_flag(node)
    is_left = is_once or _gives_up(node) or _is_for_script(frame, node)
    is_seldom = not _trains(node) and _holds(frame, node.test, asks_rarely)
    return is_left or is_seldom or _is_for_numbers(frame, node.test)


@memoize_on_node
def _trains(node: ast.If) -> bool:
    """Return whether a branch runs a backward pass. A loop that accumulates losses trains in such a branch: `if t %
    length == 0: loss.backward()`."""
    return any(last_name(call.func) == "backward" for one in node.body for call in inside(one, ast.Call))


def _is_for_script(frame: Frame, node: ast.If) -> bool:
    """Return whether an `if` in a function tests whether the file is run as a script: `if __name__ == "__main__":`."""
    return frame.node is not None and isinstance(node.test, ast.Compare) and dotted(node.test.left) == "__name__"


@memoize_on_node
def _clears_its_flag(node: ast.If) -> bool:
    """Return whether a branch clears the flag for which it tests, so that the next step does not take the branch: `if
    self.pending: …; self.pending = False`."""
    flag = dotted(node.test)
    cleared = [one for one in node.body if isinstance(one, ast.Assign) and getattr(one.value, "value", None) is False]
    return flag is not None and any(dotted(target) == flag for one in cleared for target in one.targets)


@memoize_on_node
def _gives_up(node: ast.If) -> bool:
    """Return whether a branch only returns a new tensor, because nothing is left: `if not mask.any(): return
    torch.tensor(0.0)`."""
    left, test = node.body[0], node.test
    if not isinstance(left, ast.Return) or any(last_name(one.func) not in _NEW for one in inside(left, ast.Call)):
        return False
    is_no = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    is_zero = isinstance(test, ast.Compare) and ast.unparse(test).endswith(" == 0")
    return (is_no or is_zero) and any(last_name(one.func) in _COUNTS for one in inside(test, ast.Call))


_COUNTS = frozenset("any sum numel count_nonzero".split())
_NEW = frozenset("tensor zeros zeros_like new_zeros new_tensor empty full size".split())


@memoize_on_node
def is_for_logs(node: ast.If) -> bool:
    """Return whether a branch runs from time to time for a log: `if step % self.log_interval == 0:`. The results of a
    step do not depend on such a branch."""
    divided = [one for one in inside(node.test, ast.BinOp) if isinstance(one.op, ast.Mod)]
    return not node.orelse and any(_LOGS.search(last_name(one.right)) for one in divided)


@memoize_on_node
def handles_input(loop: ast.For | ast.AsyncFor) -> bool:
    """Return whether a loop handles what a person does at a keyboard or in a window: `for event in
    pygame.event.get():`. Few steps have such events."""
    return isinstance(loop.iter, ast.Call) and _INPUTS.search(dotted(loop.iter.func) or "") is not None


def leaves_most_steps(frame: Frame, node: ast.If) -> bool:
    """Return whether few steps reach the code after an `if`: `if not self.should_log(step): return`, `if step % every
    != 0: return`."""
    # Only tests by name are used here: after `if not step % 10: return`, most steps go on.
    taken = _holds(frame, node.test, asks_by_name) or _few_go_on(frame, node.body)
    return taken and (_holds(frame, node.test, fails_by_name) or _few_go_on(frame, node.orelse))


def _few_go_on(frame: Frame, body: Sequence[ast.stmt]) -> bool:
    """Return whether few steps reach the end of a block, because most steps leave the function before it."""
    if not body:
        return False
    return isinstance(body[-1], ast.Return) or any(
        isinstance(one, ast.If) and leaves_most_steps(frame, one) for one in body
    )


def _holds(frame: Frame, test: ast.expr, asks: Callable[[ast.expr], bool]) -> bool:
    """Return whether `asks` is true for a test, or for the expression that the test names: `is_metric_step = step %
    every == 0` before `if is_metric_step:`."""
    bound = provenance.bound_expression(frame, test) if isinstance(test, ast.Name) else None
    return asks(test) or (bound is not None and asks(bound))


def _is_for_numbers(frame: Frame, test: ast.expr) -> bool:
    """Return whether a test excludes tensors (`not isinstance(x, Tensor)`) for a value that may be a tensor. Return
    False if the value may be a list."""
    asked = asked_for_tensor(test)
    kinds = {type(option) for option in options(frame.evaluate_quietly(asked))} if asked is not None else set()
    return not kinds.isdisjoint((Unknown, Tensor)) and SequenceValue not in kinds


@memoize_on_node
def is_warning(statement: ast.stmt) -> bool:
    """Return whether a statement only warns. Steps are assumed not to take a branch with such a warning."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    if dotted(call.func) == "print" and call.args:
        texts = [one.value for one in inside(call.args[0], ast.Constant) if isinstance(one.value, str)]
        return bool(texts) and _PRINTED_WARNING.match(texts[0]) is not None
    return _WARNING.search(dotted(call.func) or "") is not None


def only_before_raising(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements of a block that run only if the step is about to raise."""
    if not body or not isinstance(body[-1], ast.Raise):
        return ()
    leaving = [at for at, one in enumerate(body) if any(inside(one, kind) for kind in _LEAVES)]
    return body[leaving[-1] + 1 if leaving else 0 :]
