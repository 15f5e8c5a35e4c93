"""Truth tests: the places where Python tests whether a value is true."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.numbers import both_states
from graphsafe.scan.domain.values import (
    BOOL,
    UNKNOWN,
    UNSET,
    Dict,
    NoneValue,
    Number,
    Sequence,
    Unknown,
    Value,
    as_tensor,
    number,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.branch_effects import capturing_conditional, may_be_operand, may_be_tensor
from graphsafe.scan.interpreter.conditions import filled_defaults, guards
from graphsafe.scan.models import platforms, protocols
from graphsafe.scan.state import first_step_tests, host_clock


def boolean(frame: Frame, node: ast.BoolOp) -> Value:
    """Return the value of `a and b` or `a or b`. All operands except the last are tested for truth."""
    how = "and" if isinstance(node.op, ast.And) else "or"
    before, around = frame.env, frame.conditions
    frame.env = dict(before)
    results: list[Value] = []
    switch: Number | None = None
    for i, part in enumerate(node.values):
        if i == len(node.values) - 1:
            results.append(frame.evaluate(part))
            switch = _switch(_known(results[-1]), how) or switch
            break
        if how == "or" and _is_container(node.values[i + 1]):
            # In `caches or {}`, the first operand is a container or None, even if other code uses the operand like a
            # tensor.
            value = frame.evaluate(part)
            results += [] if type(value) is NoneValue or as_tensor(value)[0] is not None else [value]
            continue
        known = truth(frame, part, how, node)
        value = frame.evaluate_quietly(part)
        is_fixed = known is not None and known.overridable_by is None
        if is_fixed and known is not None and bool(known.const) is (how == "or"):
            results.append(value)
            break
        switch = _switch(known, how) or switch
        if not is_fixed and not (type(value) is NoneValue and how == "or"):
            results.append(BOOL if as_tensor(value)[0] is not None and how == "and" else value)
        # In `capturing() or x.item()`, captures never evaluate the operands after a true operand.
        guards.judge(frame, part, known).enter(frame, how == "and")
        guards.narrow(frame, frame.env, part, how == "and")
    frame.leave(around)
    frame.env = {**before, **{k: v for k, v in frame.env.items() if k not in before}} if frame.env != before else before
    result = join_all(results) if results else UNKNOWN
    # If the result depends only on a switch, the result counts as a switch too.
    return switch if switch is not None and type(result) in (Number, Unknown) else result


def _switch(known: Number | None, how: str) -> Number | None:
    """Return the operand if it is a switch and the result of `a and b` or `a or b` depends only on it, otherwise None.
    Switches are environment variables and tests of the platform."""
    is_switch = known is not None and known.overridable_by in ("environment", "platform")
    return known if is_switch and known is not None and bool(known.const) is (how == "or") else None


def _is_container(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("dict", "list", "set", "tuple")
    return isinstance(node, (ast.Dict, ast.List, ast.Set, ast.Tuple))


def truth(frame: Frame, node: ast.expr, how: str, whole: ast.AST) -> Number | None:
    """Return the truth of `node` if the host knows it, otherwise None. Emit a branch event if the truth depends on the
    device."""
    if isinstance(node, ast.BoolOp):
        return _truth_of_parts(frame, node, how)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        known = truth(frame, node.operand, "not" if how == "not" else how, node)
        return replace(known, const=not known.const) if known is not None else None
    asked = guards.asked_for_type(node) if isinstance(node, ast.Compare) else None
    if asked is not None and type(frame.evaluate_quietly(asked.args[0])) in (Sequence, Dict):
        known = _known(frame.evaluate(asked))
        return known if known is None or guards.asks_for_yes(node) else replace(known, const=not known.const)
    value = protocols.truth(frame, node, frame.evaluate(node))
    if frame.emit_if_on_device("Branch", how, node, value):
        return None
    if not first_step_tests.asks_entry_for_first(node):
        frame.use_number(value, "branch", node)
    return platforms.tested(frame, node) or _known(value)


def _known(value: Value) -> Number | None:
    if type(value) is Number:
        return value if value.const is not UNSET else None
    if type(value) is NoneValue:
        return number(False)
    if type(value) is Sequence and value.items is not None:
        return number(bool(value.items)) if value.kind != "list" else None
    return None


def _truth_of_parts(frame: Frame, node: ast.BoolOp, how: str) -> Number | None:
    is_and = isinstance(node.op, ast.And)
    before = dict(frame.env)
    known: list[Number | None] = []
    around = frame.conditions
    for part in node.values:
        value = truth(frame, part, how, node)
        known.append(value)
        if value is not None and value.overridable_by is None and bool(value.const) is not is_and:
            break
        # In `debug and t.any()`, captures never evaluate the operands after a false operand.
        guards.judge(frame, part, value).enter(frame, is_and)
        guards.narrow(frame, frame.env, part, is_and)
    frame.leave(around)
    frame.env = {**frame.env, **before}
    decisive = [value for value in known if value is not None and bool(value.const) is not is_and]
    if decisive:
        hard = next((value for value in decisive if value.overridable_by is None), decisive[0])
        return replace(hard, const=not is_and)
    if all(value is not None for value in known) and len(known) == len(node.values):
        reasons = (value.overridable_by for value in known if value is not None)
        overridable_by = next(filter(None, reasons), None)
        return Number(is_and, overridable_by=overridable_by, type="bool")
    return None


def conditional(frame: Frame, node: ast.IfExp) -> Value:
    effects, since = frame.engine.effects, len(frame.engine.effects.items)
    known = truth(frame, node.test, "ifexp", node)
    has_used, end = effects.has_used(since), len(effects.items)
    verdict = guards.judge(frame, node.test, known)
    capturing_conditional(frame, node)
    before = frame.env
    results: list[Value] = []
    for branch, part in ((True, node.body), (False, node.orelse)):
        if verdict.dead is branch:
            continue
        frame.env = dict(before)
        guards.narrow(frame, frame.env, node.test, branch)
        if not branch and results and filled_defaults.is_kept(node):
            filled_defaults.use_kind(frame, node.test, lambda name: results[0])
        around = frame.conditions
        verdict.enter(frame, branch)
        results.append(frame.evaluate(part))
        frame.leave(around)
    if has_used and not any(map(may_be_operand, results)):
        effects.forget_uses(since, end)
    elif has_used and all(map(may_be_tensor, results)):
        host_clock.decides(effects.items, since, end)
    frame.env = before
    result = join_all(results)
    if has_used and type(result) is Number:
        # In `k = 2 if time.time() > limit else 3`, the number depends on the clock, so it counts as state as the clock
        # does.
        return replace(result, state=both_states(result.state, host_clock.read_by(effects.items[since:end])))
    return result
