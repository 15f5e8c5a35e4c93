"""Statements: what they assign, which branches run, and what they do to state."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from graphsafe.scan.checks import branch_effects, capture_site, capturing_branch, first_step, side_stream
from graphsafe.scan.checks.filled_once import is_own_entry, turned_off
from graphsafe.scan.domain.arguments import TOP_LEVEL
from graphsafe.scan.domain.events import CompileTest
from graphsafe.scan.domain.held import held_in
from graphsafe.scan.domain.joins import element_of, join
from graphsafe.scan.domain.values import (
    NONE,
    UNKNOWN,
    ClassValue,
    DeviceValue,
    Instance,
    RuntimeObject,
    Sequence,
    Unknown,
    Value,
    as_tensor,
    describe,
)
from graphsafe.scan.interpreter import assignments, stream_managers
from graphsafe.scan.interpreter.assignments import assign
from graphsafe.scan.interpreter.call_frame import Frame, LazyTest
from graphsafe.scan.interpreter.calls import calls
from graphsafe.scan.interpreter.conditions import first_step_tests, guards
from graphsafe.scan.interpreter.conditions.truth import truth
from graphsafe.scan.models import platforms, protocols
from graphsafe.scan.symbols.imports import import_targets
from graphsafe.scan.symbols.index import decorator_name, dotted
from graphsafe.scan.symbols.kernels import is_kernel

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.engine import Engine

Env = dict[str, Value]


def execute(engine: Engine, frame: Frame, body: Iterable[ast.stmt]) -> bool:
    """Read statements in order; False where nothing after them can run."""
    for statement in body:
        handler = _HANDLERS.get(type(statement))
        if handler is not None and handler(engine, frame, statement) is False:
            return False
    return True


# simple statements


def _expression(engine: Engine, frame: Frame, node: ast.Expr) -> None:
    if not frame.hot and _is_message(node.value):
        return
    engine.evaluate(frame, node.value)


def _is_message(node: ast.expr) -> bool:
    """A docstring or a line of a log: nothing that constructors and their like are read for."""
    if isinstance(node, ast.Constant):
        return True
    function = node.func if isinstance(node, ast.Call) else None
    owner = function.value if isinstance(function, ast.Attribute) else function
    return isinstance(owner, ast.Name) and owner.id in ("logger", "logging", "warnings", "print")


def _delete(engine: Engine, frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            frame.env.pop(target.id, None)


def _import(engine: Engine, frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    for local, target in import_targets(node, frame.file.module, frame.file.is_package):
        if local != "*":
            frame.env[local] = engine.globals.bound(engine.project.resolve_dotted(target, frame.path))
    elsewhere = platforms.imported(frame, node) if frame.hot else None
    if elsewhere is not None:
        frame.guards.append(elsewhere)


def _global(engine: Engine, frame: Frame, node: ast.Global) -> None:
    frame.globals.update(node.names)


def _nonlocal(engine: Engine, frame: Frame, node: ast.Nonlocal) -> None:
    if frame.cells is not None:
        frame.nonlocals.update(node.names)
        for name in node.names:
            if name in frame.env:
                frame.env[name] = held_in(frame.env[name], f"{frame.cells}.{name}")


def _function(engine: Engine, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if node.decorator_list and is_kernel(filter(None, map(decorator_name, node.decorator_list))):
        frame.env[node.name] = UNKNOWN
    elif frame.function or frame.depth:
        frame.env[node.name] = engine.closures.define(frame, node)
    else:
        frame.env[node.name] = engine.globals.value(frame.file, node.name)


def _class(engine: Engine, frame: Frame, node: ast.ClassDef) -> None:
    name = f"{frame.function}.{node.name}"
    frame.env[node.name] = (
        ClassValue(f"{frame.path}::{name}")
        if engine.project.class_facts(f"{frame.path}::{name}") is not None
        else UNKNOWN
    )


def _return(engine: Engine, frame: Frame, node: ast.Return) -> bool:
    value = NONE if node.value is None else engine.evaluate(frame, node.value)
    if type(value) is not Unknown or node.value is None or not is_own_entry(frame, node.value):
        frame.returns.append(value)
    return False


def _raise(engine: Engine, frame: Frame, node: ast.Raise) -> bool:
    # The message is built only where the step fails anyway.
    return False


def _stop(engine: Engine, frame: Frame, node: ast.stmt) -> bool:
    return False


def _assert(engine: Engine, frame: Frame, node: ast.Assert) -> bool:
    known = truth(engine, frame, node.test, "assert", node) if frame.hot else None
    guards.narrow(engine, frame, frame.env, node.test, True)
    guards.place(engine, frame, node.test)
    # `isinstance(x, list)` of what cannot be one, a parameter that this call leaves None: the branch does not run.
    decides = isinstance(node.test, ast.Call) or guards.asks_for_parameter(frame, node.test)
    return known is None or known.overridable_by is not None or bool(known.const) or not decides


# ways


def _if(engine: Engine, frame: Frame, node: ast.If) -> bool:
    uses = len(engine.effects.items)
    known = truth(engine, frame, node.test, "if", node)
    if engine.effects.has_used(uses) and not branch_effects.touches_device(engine, frame, [*node.body, *node.orelse]):
        engine.effects.forget_uses(uses)
    verdict = guards.judge(engine, frame, node.test, known)
    capturing_branch.branch(engine, frame, node)
    before = frame.env
    outcomes: list[Env] = []
    left: str | None = None
    left_test: CompileTest | None = None
    lazy_count, missing = len(frame.lazy), list[LazyTest]()
    for branch, body in ((True, node.body), (False, node.orelse)):
        if verdict.dead is branch:
            if frame.globals and body and isinstance(body[-1], ast.Return):
                # `if plan is not None: return plan` of a global that is None until this function fills it.
                missing += first_step_tests.after_leaving(node, branch)
            continue
        frame.env = dict(before)
        guards.narrow(engine, frame, frame.env, node.test, branch)
        frame.lazy += first_step_tests.around_branch(node, branch)
        if branch:
            flag = turned_off(engine, frame, node)
            if flag is not None:
                frame.lazy.append(LazyTest(flag, node.lineno))
        around = frame.conditions
        test = verdict.test_of(branch)
        if verdict.guarded is branch:
            frame.guards.append(verdict.text)
        elif test is not None:
            frame.compile_tests.append(test)
        returned = len(frame.returns)
        runs_on = execute(engine, frame, body)
        frame.leave(around)
        del frame.lazy[lazy_count:]
        if verdict.traced and branch is verdict.guarded:
            del frame.returns[returned:]
            continue
        if not runs_on:
            missing += first_step_tests.after_leaving(node, branch)
        if runs_on:
            outcomes.append(frame.env)
        elif verdict.guarded is (not branch):
            # The branch that captures take has left the function: they do not reach what follows.
            left = verdict.text
        else:
            left_test = verdict.test_of(not branch)
    frame.env = _merge(outcomes, before)
    if left is not None:
        frame.guards.append(left)
    elif left_test is not None:
        frame.compile_tests.append(left_test)
    if not node.orelse:
        frame.lazy += missing
    return bool(outcomes)


def _merge(envs: list[Env], fallback: Env) -> Env:
    if not envs:
        return fallback
    merged = envs[0]
    for env in envs[1:]:
        if env is merged:
            continue
        result: Env = {}
        for name, a in merged.items():
            b = env.get(name)
            if b is a:
                result[name] = a
            elif b is not None:
                result[name] = join(a, b)
            elif "." not in name:
                result[name] = a
        for name in env.keys() - merged.keys():
            if "." not in name:
                result[name] = env[name]
        merged = result
    return merged


def _loop_body(engine: Engine, frame: Frame, body: list[ast.stmt], before_each: Callable[[], None]) -> None:
    """Interpret the body twice in hot code, the second time with the names that the first left."""
    lazy_count = len(frame.lazy)
    for _ in range(2 if frame.hot else 1):
        start = dict(frame.env)
        before_each()
        execute(engine, frame, body)
        del frame.lazy[lazy_count:]
        merged = _merge([frame.env, start], start)
        same = merged == start
        frame.env = merged
        if same:
            break


def _for(engine: Engine, frame: Frame, node: ast.For | ast.AsyncFor) -> None:
    iterable = protocols.iterated(engine, frame, node.iter, engine.evaluate(frame, node.iter))
    item = element_of(iterable)
    if isinstance(node.iter, ast.Call) and dotted(node.iter.func) == "enumerate" and type(item) is Unknown:
        item = UNKNOWN
    around = frame.conditions
    _loop_body(engine, frame, node.body, lambda: assign(engine, frame, node.target, item, node))
    frame.leave(around)
    execute(engine, frame, node.orelse)


def _while(engine: Engine, frame: Frame, node: ast.While) -> None:
    around = frame.conditions
    _loop_body(engine, frame, node.body, lambda: _enter_while(engine, frame, node))
    frame.leave(around)
    execute(engine, frame, node.orelse)


def _enter_while(engine: Engine, frame: Frame, node: ast.While) -> None:
    truth(engine, frame, node.test, "while", node)
    guards.narrow(engine, frame, frame.env, node.test, True)


def _try(engine: Engine, frame: Frame, node: ast.Try) -> bool:
    before = dict(frame.env)
    around = guards_before, tests_before = frame.conditions
    frame.tries.append(node)
    runs_on = execute(engine, frame, node.body)
    frame.tries.pop()
    after = frame.env
    outcomes: list[Env] = []
    if runs_on:
        runs_on = execute(engine, frame, node.orelse)
        if runs_on:
            outcomes.append(frame.env)
    body_guards, body_tests = frame.guards[guards_before:], frame.compile_tests[tests_before:]
    frame.leave(around)
    for handler in node.handlers:
        frame.env = _merge([before, after], before)
        if handler.name:
            frame.env[handler.name] = UNKNOWN
        missing = first_step.missing_when_raised(node, handler)
        frame.lazy.extend(LazyTest(text, node.lineno) for text in missing)
        frame.unlikely += not missing
        if execute(engine, frame, handler.body):
            outcomes.append(frame.env)
        frame.unlikely -= not missing
        del frame.lazy[len(frame.lazy) - len(missing) :]
    frame.guards.extend(body_guards)
    frame.compile_tests.extend(body_tests)
    frame.env = _merge(outcomes, after)
    ends = execute(engine, frame, node.finalbody)
    return ends and bool(outcomes)


def _with(engine: Engine, frame: Frame, node: ast.With | ast.AsyncWith) -> bool | None:
    contexts, entered_count = len(frame.contexts), len(frame.entered)
    hot, captured, around = frame.hot, frame.captured, frame.conditions
    guards, lazy = frame.guards, frame.lazy
    for item in node.items:
        value = engine.evaluate(frame, item.context_expr)
        entered = _enter(engine, frame, node, item.context_expr, value)
        frame.entered.append(item.context_expr)
        if item.optional_vars is not None:
            assign(engine, frame, item.optional_vars, entered, node)
    runs_on = execute(engine, frame, node.body)
    frame.hot, frame.captured = hot, captured
    frame.guards, frame.lazy = guards, lazy
    del frame.contexts[contexts:]
    del frame.entered[entered_count:]
    if not runs_on:
        frame.leave(around)
    return runs_on


def _enter(engine: Engine, frame: Frame, node: ast.With | ast.AsyncWith, expression: ast.expr, value: Value) -> Value:
    """What `with value as name` binds, and what holds inside."""
    if type(value) is DeviceValue:
        frame.contexts.append("device" if value.where != "host" else "host")
    elif type(value) is RuntimeObject and value.kind == "capture":
        capture_site.entered(engine, frame, node, expression)
        # `if self.graph is None:` around it runs once, but what it captures then is what every step replays.
        frame.guards, frame.lazy = [], []
        frame.captured = True
        if not frame.hot and frame.level == TOP_LEVEL:
            engine.add_root_site(frame)
            frame.hot = True
    elif type(value) is RuntimeObject and value.kind in ("stream-context", "stream", "device-context"):
        frame.contexts.append(value.kind)
        if value.kind == "stream-context" and frame.hot:
            side_stream.entered(engine, frame, node, expression)
    elif type(value) is Instance:
        stream_managers.entered(engine, frame, node, expression, value)
        method = engine.project.find_method(value.ref, "__enter__")
        return UNKNOWN if method is None else calls.call_method(engine, frame, expression, value, method)
    elif type(value) is Sequence and value.kind == "iterator":
        stream_managers.entered(engine, frame, node, expression, value)
        return value.elem
    return value


def _match(engine: Engine, frame: Frame, node: ast.Match) -> bool:
    subject = engine.evaluate(frame, node.subject)
    tensor, certain = as_tensor(subject)
    if tensor is not None and tensor.where != "host" and any(isinstance(c.pattern, ast.MatchValue) for c in node.cases):
        confidence = "likely" if certain and tensor.certain else "possible"
        engine.emit(frame, "Branch", "compare", node.subject, confidence, value=describe(subject))  # type: ignore[arg-type]
    before = frame.env
    outcomes: list[Env] = []
    for case in node.cases:
        frame.env = dict(before)
        for inner in ast.walk(case.pattern):
            name = getattr(inner, "name", None)
            if isinstance(name, str):
                frame.env[name] = UNKNOWN
        if case.guard is not None:
            truth(engine, frame, case.guard, "if", case.guard)
        if execute(engine, frame, case.body):
            outcomes.append(frame.env)
    outcomes.append(before)
    frame.env = _merge(outcomes, before)
    return True


_HANDLERS: dict[type[ast.stmt], Callable[[Engine, Frame, Any], bool | None]] = {
    ast.Expr: _expression,
    ast.Assign: assignments.plain,
    ast.AnnAssign: assignments.annotated_assignment,
    ast.AugAssign: assignments.augmented,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
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
