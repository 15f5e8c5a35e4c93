"""Statements: the values that they assign, the branches that run, and the state that they change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from typing import Any

from graphsafe.scan.domain.arguments import TOP_LEVEL, Arguments
from graphsafe.scan.domain.events import CompileTest
from graphsafe.scan.domain.joins import element_of
from graphsafe.scan.domain.summary import RootSite
from graphsafe.scan.domain.values import NONE, UNKNOWN, DeviceValue, Instance, RuntimeObject, Sequence, Unknown, Value
from graphsafe.scan.execution.frame import Frame, LazyTest
from graphsafe.scan.hazards import branch_effects, capture_site, fixed_device
from graphsafe.scan.hazards.graph_syntax import is_warm_up
from graphsafe.scan.hazards.streams import side_stream
from graphsafe.scan.interpreter import assignments, definitions, patterns
from graphsafe.scan.interpreter.assignments import assign
from graphsafe.scan.interpreter.conditions import filled_defaults, guards, rare_branches
from graphsafe.scan.interpreter.conditions.flags_off import never_taken
from graphsafe.scan.interpreter.conditions.truth import truth
from graphsafe.scan.interpreter.environments import Env, binds_more_functions, made_by_iteration, merge
from graphsafe.scan.interpreter.rounds import holds_steps
from graphsafe.scan.models import protocols
from graphsafe.scan.sources.capture_calls import is_begin
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.state import first_step, first_step_tests, host_clock
from graphsafe.scan.state.filled_once import is_own_entry, turned_off
from graphsafe.scan.state.provenance import all_bound

MAX_ROUNDS = 8
"The largest number of iterations of a loop that are interpreted."


def execute(frame: Frame, body: SequenceOf[ast.stmt], doubtful: Iterable[ast.stmt] = ()) -> bool:
    """Read statements in order. Return False if nothing after them can run.

    Steps are assumed to skip the `doubtful` statements, and statements that run only before the step raises an error.
    """
    unlikely = (*doubtful, *rare_branches.only_before_raising(body)) if frame.hot else ()
    for statement in body:
        handler = _HANDLERS.get(type(statement))
        is_unlikely = statement in unlikely
        frame.unlikely += is_unlikely
        runs_on = handler is None or handler(frame, statement) is not False
        frame.unlikely -= is_unlikely
        if not runs_on:
            return False
    return True


# simple statements


def _expression(frame: Frame, node: ast.Expr) -> None:
    if not frame.hot and _is_message(node.value):
        return
    frame.evaluate(node.value)
    if frame.hot and not frame.touches_device:
        value = node.value
        frame.touches_device = isinstance(value, ast.Call) and branch_effects.call_touches_device(frame, value)


@memoize_on_node
def _is_message(node: ast.expr) -> bool:
    """Return whether an expression is a docstring or a logging call. Both are skipped in constructors."""
    function = node.func if isinstance(node, ast.Call) else None
    owner = function.value if isinstance(function, ast.Attribute) else function
    name = owner.id if isinstance(owner, ast.Name) else ""
    # A call such as `print(bench(solver.step))` is not skipped, because it also does work.
    says = name in ("logger", "logging", "warnings") or (name == "print" and len(inside(node, ast.Call)) == 1)
    return says or isinstance(node, ast.Constant)


def _return(frame: Frame, node: ast.Return) -> bool:
    frame.touches_device = True
    value = NONE if node.value is None else frame.evaluate(node.value)
    # If this function fills a table and returns an unknown entry of the table, the entry does not count as a result:
    # the function has stored the entry's value itself.
    if type(value) is not Unknown or node.value is None or not is_own_entry(frame, node.value):
        frame.returns.append(value)
    return False


def _raise(frame: Frame, node: ast.Raise) -> bool:
    # The exception is not evaluated, because it matters only if the step fails anyway.
    return False


def _stop(frame: Frame, node: ast.stmt) -> bool:
    frame.touches_device = True
    return False


def _assert(frame: Frame, node: ast.Assert) -> bool:
    known = truth(frame, node.test, "assert", node) if frame.hot else None
    guards.narrow(frame, frame.env, node.test, True)
    guards.place(frame, node.test)
    # The code after the assertion does not run if its test is certainly false. Only three kinds of tests decide this: a
    # constant (`assert False`), a call such as `isinstance(x, list)`, and `x is not None` for a parameter `x`.
    decides = isinstance(node.test, (ast.Call, ast.Constant)) or guards.asks_for_parameter(frame, node.test)
    return known is None or known.overridable_by is not None or bool(known.const) or not decides


def _assign(frame: Frame, node: ast.Assign) -> None:
    branch = assignments.as_branch(node) if frame.hot else None
    if branch is None:
        assignments.plain(frame, node)
    else:
        _if(frame, branch)


# branches


@dataclass(slots=True)
class _Ways:
    """The two branches of an `if`, and the values of the names after them."""

    node: ast.If
    verdict: guards.Verdict
    never_taken: bool | None = None
    """The branch that never runs because nothing in the project assigns the needed value to a flag; None without such a
    branch."""
    outcomes: list[Env] = field(default_factory=list)
    "The values of the names after each branch that does not leave the function."
    missing: list[LazyTest] = field(default_factory=list)
    "The tests on which the code after the `if` depends, if one of the branches leaves the function."
    guard: str | None = None
    """The condition of the `if`, if captures take a branch that leaves the function. Captures then do not reach the
    code after the `if`."""
    test: CompileTest | None = None


def _if(frame: Frame, node: ast.If) -> bool:
    effects, since = frame.engine.effects, len(frame.engine.effects.items)
    known = truth(frame, node.test, "if", node)
    ways = _Ways(node, guards.judge(frame, node.test, known), never_taken(frame, node.test, known))
    has_used, end = effects.has_used(since), len(effects.items)
    if ways.verdict.dead is not None:
        frame.decided.add((node.lineno, not ways.verdict.dead))
    branch_effects.capturing_branch(frame, node)
    before, touched_before, returned = frame.env, frame.touches_device, len(frame.returns)
    frame.touches_device = False
    for branch, body in ((True, node.body), (False, node.orelse)):
        if ways.verdict.dead is not branch:
            frame.env = dict(before)
            if not branch and ways.outcomes:
                filled_defaults.use_kind(frame, node.test, ways.outcomes[0].get)
            _take(frame, ways, branch, body)
        elif frame.globals and body and isinstance(body[-1], ast.Return):
            # This branch runs only in later steps: in `if plan is not None: return plan`, the global `plan` is None
            # until this function fills it.
            ways.missing += first_step_tests.after_leaving(node, branch)
    if has_used and (not frame.touches_device or rare_branches.is_for_logs(node)):
        effects.forget_uses(since, end)
    elif has_used and branch_effects.chooses_result(frame, node, before, returned):
        host_clock.decides(effects.items, since, end)
    frame.touches_device |= touched_before
    frame.env = merge(ways.outcomes, before)
    if ways.guard is not None:
        frame.guards.append(ways.guard)
    elif ways.test is not None:
        frame.compile_tests.append(ways.test)
    if not node.orelse:
        frame.lazy += ways.missing
    if frame.hot and rare_branches.leaves_most_steps(frame, node):
        frame.unlikely += 1
        frame.seldom += 1
    return bool(ways.outcomes)


def _take(frame: Frame, ways: _Ways, branch: bool, body: list[ast.stmt]) -> None:
    """Read one branch under the conditions that lead to the branch."""
    verdict = ways.verdict
    around, lazy_count, returned = frame.conditions, len(frame.lazy), len(frame.returns)
    unlikely, seldom = frame.unlikely, frame.seldom
    rare = frame.hot and (ways.never_taken is branch or (branch and rare_branches.is_rare(frame, ways.node)))
    _enter_branch(frame, ways, branch)
    frame.unlikely += rare
    frame.seldom += rare
    runs_on = execute(frame, body, filter(rare_branches.is_warning, body))
    frame.unlikely, frame.seldom = unlikely, seldom
    frame.leave(around)
    del frame.lazy[lazy_count:]
    if verdict.traced and branch is verdict.guarded:
        del frame.returns[returned:]
    elif runs_on:
        ways.outcomes.append(frame.env)
        nested = first_step_tests.joined(ways.node) if branch else None
        if nested is not None:
            ways.missing += first_step_tests.after_leaving(nested, True)
    else:
        ways.missing += first_step_tests.after_leaving(_spelled_out(frame, ways.node), branch)
        if verdict.guarded is (not branch):
            # The branch that captures take leaves the function, so captures do not reach the rest of the function.
            ways.guard = verdict.text
        else:
            ways.test = verdict.test_of(not branch)


def _spelled_out(frame: Frame, node: ast.If) -> ast.If:
    """Return the `if` with its test written out. If the test is a name that the function binds once, the bound
    expression replaces the name: `is_short = n > self.size` before `if is_short:`."""
    bound = all_bound(frame, node.test.id) if isinstance(node.test, ast.Name) else ()
    test = bound[0] if len(bound) == 1 else None
    return node if test is None else ast.copy_location(ast.If(test, node.body, node.orelse), node)


def _enter_branch(frame: Frame, ways: _Ways, branch: bool) -> None:
    node, verdict = ways.node, ways.verdict
    guards.narrow(frame, frame.env, node.test, branch)
    frame.lazy += first_step_tests.around_branch(_spelled_out(frame, node), branch)
    flag = turned_off(frame, node) if branch else None
    if flag is not None:
        frame.lazy.append(LazyTest(flag, node.lineno))
    verdict.enter(frame, branch)


def _loop(frame: Frame, node: ast.For | ast.AsyncFor | ast.While, before_each: Callable[[], None]) -> None:
    """Interpret the body once. In hot code, interpret it again, with the values that the names have after the first
    iteration.

    Further iterations follow as long as names are bound to new functions, as in `state = state(machine)`.
    """
    ended: Env = {}
    around, lazy_count, hot, between = frame.conditions, len(frame.lazy), frame.hot, frame.between
    is_step = node.lineno in frame.step_loops
    frame.hot = hot or (is_step and not is_warm_up(node))
    # If a loop contains the step loop, the other lines of the outer loop run between the steps.
    frame.between = not frame.hot and (between or is_step or holds_steps(frame, node))
    for rounds in range(1, MAX_ROUNDS + 1 if frame.hot else 2):
        start = dict(frame.env)
        before_each()
        execute(frame, node.body)
        del frame.lazy[lazy_count:]
        ended = frame.env
        frame.env = merge([ended, start], start)
        if frame.env == start or (rounds > 1 and not binds_more_functions(start, frame.env)):
            break
    if not isinstance(node, ast.While):
        frame.env = made_by_iteration(frame.env, ended)
    frame.hot, frame.between = hot, between
    frame.leave(around)
    execute(frame, node.orelse)


def _for(frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    iterable = protocols.iterated(frame, node.iter, frame.evaluate(node.iter))
    item = element_of(iterable)
    unlikely, seldom, is_rare = frame.unlikely, frame.seldom, rare_branches.handles_input(node)
    frame.unlikely, frame.seldom = unlikely + is_rare, seldom + is_rare
    _loop(frame, node, lambda: assign(frame, node.target, item, node))
    frame.unlikely, frame.seldom = unlikely, seldom


def _while(frame: Frame, node: ast.While) -> None:
    branch_effects.polled(frame, node)
    _loop(frame, node, lambda: _enter_while(frame, node))


def _enter_while(frame: Frame, node: ast.While) -> None:
    guards.judge(frame, node.test, truth(frame, node.test, "while", node)).enter(frame, True)
    guards.narrow(frame, frame.env, node.test, True)


def _try(frame: Frame, node: ast.Try) -> bool:
    before = dict(frame.env)
    around = guards_before, tests_before = frame.conditions
    frame.tries.append(node)
    runs_on = execute(frame, node.body)
    frame.tries.pop()
    after = frame.env
    outcomes: list[Env] = []
    if runs_on:
        runs_on = execute(frame, node.orelse)
        if runs_on:
            outcomes.append(frame.env)
    body_guards, body_tests = frame.guards[guards_before:], frame.compile_tests[tests_before:]
    frame.leave(around)
    for handler in node.handlers:
        frame.env = merge([before, after], before)
        if handler.name:
            frame.env[handler.name] = UNKNOWN
        missing = first_step.missing_when_raised(node, handler)
        frame.lazy.extend(LazyTest(text, node.lineno) for text in missing)
        frame.unlikely += not missing
        if execute(frame, handler.body):
            outcomes.append(frame.env)
        frame.unlikely -= not missing
        del frame.lazy[len(frame.lazy) - len(missing) :]
    frame.guards.extend(body_guards)
    frame.compile_tests.extend(body_tests)
    frame.env = merge(outcomes, after)
    ends = execute(frame, node.finalbody)
    return ends and bool(outcomes)


def _with(frame: Frame, node: ast.With | ast.AsyncWith) -> bool | None:
    contexts, entered_count = len(frame.contexts), len(frame.entered)
    managers: list[tuple[ast.expr, Value]] = []
    hot, captured, around = frame.hot, frame.captured, frame.conditions
    guards, lazy = frame.guards, frame.lazy
    for item in node.items:
        value = frame.evaluate(item.context_expr)
        entered = _enter(frame, node, item.context_expr, value)
        managers.append((item.context_expr, value))
        frame.entered.append(item.context_expr)
        if item.optional_vars is not None:
            assign(frame, item.optional_vars, entered, node)
    runs_on = execute(frame, node.body)
    frame.hot, frame.captured = hot, captured
    frame.guards, frame.lazy = guards, lazy
    for expression, manager in reversed(managers):
        protocols.called(frame, expression, manager, "__exit__", arguments=Arguments((NONE, NONE, NONE)))
    del frame.contexts[contexts:]
    del frame.entered[entered_count:]
    if not runs_on:
        frame.leave(around)
    return runs_on


def _enter(frame: Frame, node: ast.With | ast.AsyncWith, expression: ast.expr, value: Value) -> Value:
    """Enter `with value as name`. Record the conditions inside, and return the value of `name`."""
    if type(value) is DeviceValue or (type(value) is RuntimeObject and value.kind == "device-context"):
        fixed_device.entered(frame, expression)
    if type(value) is DeviceValue:
        frame.contexts.append("device" if value.where != "host" else "host")
    elif is_begin(expression) or (type(value) is RuntimeObject and value.kind in ("capture", "graph")):
        if is_begin(expression) or (type(value) is RuntimeObject and value.kind == "capture"):
            capture_site.entered(frame, node, expression)
        # Under `if self.graph is None:` the capture runs once, but every step replays the captured code.
        frame.guards, frame.lazy = [], []
        frame.captured = True
        if not frame.hot and frame.level == TOP_LEVEL:
            frame.engine.note(RootSite(frame.ref))
            frame.hot = True
    elif type(value) is RuntimeObject and value.kind in ("stream-context", "stream", "device-context"):
        frame.contexts.append(value.kind)
        if value.kind == "stream-context" and frame.hot:
            side_stream.entered(frame, node, expression)
    elif type(value) is Instance:
        made = protocols.called(frame, expression, value, "__enter__")
        return UNKNOWN if made is None else made
    elif type(value) is Sequence and value.kind == "iterator":
        return value.elem
    return value


def _match(frame: Frame, node: ast.Match) -> bool:
    subject = frame.evaluate(node.subject)
    parts = (part for case in node.cases for part in patterns.compared(case.pattern, subject))
    for part in dict.fromkeys(parts):
        frame.emit_if_on_device("Branch", "compare", node.subject, part)
    before = frame.env
    outcomes: list[Env] = []
    for case in node.cases:
        frame.env = dict(before)
        patterns.bind(frame, case.pattern, subject)
        if case.guard is not None:
            truth(frame, case.guard, "if", case.guard)
        if execute(frame, case.body):
            outcomes.append(frame.env)
    outcomes.append(before)
    frame.env = merge(outcomes, before)
    return True


_HANDLERS: dict[type[ast.stmt], Callable[[Frame, Any], bool | None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: assignments.annotated_assignment,
    ast.AugAssign: assignments.augmented,
    ast.Delete: definitions.delete,
    ast.Import: definitions.import_,
    ast.ImportFrom: definitions.import_,
    ast.Global: definitions.global_,
    ast.Nonlocal: definitions.nonlocal_,
    ast.FunctionDef: definitions.function,
    ast.AsyncFunctionDef: definitions.function,
    ast.ClassDef: definitions.class_,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Break: _stop,
    ast.Continue: _stop,
    ast.Assert: _assert,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.Try: _try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Match: _match,
}
if hasattr(ast, "TryStar"):
    _HANDLERS[ast.TryStar] = _try
