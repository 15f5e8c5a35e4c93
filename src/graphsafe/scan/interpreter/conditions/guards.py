"""Conditions: the branch that captures take, the branch that never runs, and the facts that a test implies."""

from __future__ import annotations

import ast
import re

from graphsafe.scan.domain.events import CompileTest
from graphsafe.scan.domain.frozen import dataclass, replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.values import (
    ARRAY,
    NONE,
    ClassValue,
    DeviceValue,
    Instance,
    Number,
    Tensor,
    Unknown,
    Value,
    Where,
    may_be_none,
    options,
    without_none,
)
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter.conditions.capture_answers import answer, asks_tracers, decided, may_answer
from graphsafe.scan.models import packed_sequences, type_tests
from graphsafe.scan.sources.node_memo import memoize_on_node, source_text
from graphsafe.scan.state import provenance
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.index import dotted, is_none

DEBUG_NAME = re.compile(
    r"(^|[._])(debug\w*|\w*_debug|verbose|verbosity|trace_\w+|log_level|profil\w+|(inspect|measure)_times?|sanity_check\w*|check_nan\w*|dump\w*|benchmark(ing|_mode)?|isEnabledFor)$",
    re.I,
)
MAKES_GRAPHS = re.compile(r"^_?(in|is|for|during)_(cuda_)?(graph_)?captur(e|ing)$")
"Matches parameters that are off by default. If such a parameter is on, the call prepares a capture and is not a step."
USES_GRAPHS = re.compile(r"(^|[._])(use|using|uses|enabled?|with|in|is)_(cuda_?|hip_?)graphs?(_mode)?$")
"Matches flags that are on if graphs are used. No capture takes a branch for which such a flag is off."


@dataclass(frozen=True, slots=True)
class Verdict:
    """The meaning of a condition for captures. Each field except `text` and `traced` names a branch or is None."""

    dead: bool | None = None
    guarded: bool | None = None
    "The branch that no capture takes."
    text: str = ""
    compiled: bool | None = None
    "The branch that captures take only under torch.compile."
    plain: bool | None = None
    "The branch that captures take only without torch.compile."
    traced: bool = False
    "Whether the guarded branch runs only for a tracer. If so, values from this branch do not reach a step."

    def test_of(self, branch: bool) -> CompileTest | None:
        """Return the test for torch.compile that a capture must pass to take a branch, or None."""
        if branch is self.compiled or branch is self.plain:
            return CompileTest(branch is self.compiled, self.text)
        return None

    def enter(self, frame: Frame, branch: bool) -> None:
        """Record the test as a condition around the current line, if the test keeps some captures out of the branch."""
        test = self.test_of(branch)
        if self.guarded is branch:
            frame.guards.append(self.text)
        elif test is not None:
            frame.compile_tests.append(test)


NOTHING = Verdict()
DEVICE_TYPE = ".device.type"
MAX_LOCALS = 3
"The largest number of assignments from one local name to another that are followed."


def judge(frame: Frame, test: ast.expr, known: Number | None) -> Verdict:
    """Return the verdict on a test. `known` is the value of the test if the host knows it."""
    plain = compiled = None
    if _may_ask(test):
        plain, compiled = _captured(frame, test, False), _captured(frame, test, True)
    if plain is not None and plain is compiled:
        return Verdict(guarded=not plain, text=_text(test), traced=asks_tracers(test, not plain))
    if plain is not None:
        # If the result under torch.compile is not known, a capture with torch.compile may take either branch.
        return Verdict(text=_text(test), compiled=not plain, plain=None if compiled is None else not compiled)
    verdict = _judge_value(test, known)
    if verdict is NOTHING and _uses_graphs(test):
        return Verdict(guarded=isinstance(test, ast.UnaryOp), text=_text(test))
    return verdict if compiled is None else replace(verdict, plain=not compiled, text=verdict.text or _text(test))


@memoize_on_node
def _uses_graphs(test: ast.expr) -> bool:
    """Return whether a test is a flag that turns graphs on, or its negation."""
    is_negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return USES_GRAPHS.search(dotted(test.operand if is_negated else test) or "") is not None  # type: ignore[attr-defined]


def _judge_value(test: ast.expr, known: Number | None) -> Verdict:
    if known is not None:
        value = bool(known.const)
        if known.overridable_by is None:
            return Verdict(dead=not value)
        if not value and (known.overridable_by in ("environment", "platform") or _is_debug(test)):
            return Verdict(guarded=True, text=_text(test))
        is_off = known.overridable_by == "default" and not value
        if is_off and isinstance(test, ast.Name) and MAKES_GRAPHS.search(test.id):
            return Verdict(guarded=True, text=_text(test))
        if value and known.overridable_by in ("environment", "platform"):
            return Verdict(guarded=False, text=_text(test))
    elif _is_debug(test):
        return Verdict(guarded=True, text=_text(test))
    return NOTHING


@memoize_on_node
def _may_ask(test: ast.expr) -> bool:
    """Return whether the result of a test may depend on a capture being under way. Such a test contains a call, or a
    local name that may stand for the result of a call."""
    if isinstance(test, ast.UnaryOp):
        return _may_ask(test.operand)
    if isinstance(test, ast.BoolOp):
        return any(map(_may_ask, test.values))
    if isinstance(test, ast.Compare):
        return isinstance(test.left, ast.Name) and is_none(test.comparators[0])
    return may_answer(test) if isinstance(test, ast.Call) else isinstance(test, ast.Name)


def _captured(frame: Frame, test: ast.expr, compiled: bool, depth: int = 0) -> bool | None:
    """Return the result of a test during a capture. The test may contain local names: `capturing`, `buffers is
    None`."""
    direct = answer(frame, test, compiled)
    if direct is not None or depth > MAX_LOCALS:
        return direct
    if isinstance(test, ast.Name):
        bound = provenance.bound_expression(frame, test)
        if bound is None or bound is test or not _may_ask(bound):
            return None
        return _captured(frame, bound, compiled, depth + 1)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _captured(frame, test.operand, compiled, depth)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [_captured(frame, part, compiled, depth) for part in test.values]
        return decided(parts, isinstance(test.op, ast.Or))
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return _set_by_answer(frame, test, compiled)
    return None


def _set_by_answer(frame: Frame, test: ast.Compare, compiled: bool) -> bool | None:
    """Return the result of `buffers is None` after `buffers = None if capturing else …`, or None for any other test."""
    right = test.comparators[0]
    if not isinstance(test.left, ast.Name) or not is_none(right):
        return None
    chosen = provenance.bound_expression(frame, test.left)
    asked = answer(frame, chosen.test, compiled) if isinstance(chosen, ast.IfExp) else None
    if not isinstance(chosen, ast.IfExp) or asked is None:
        return None
    value, other = (chosen.body, chosen.orelse) if asked else (chosen.orelse, chosen.body)
    return isinstance(test.ops[0], ast.IsNot) if is_none(other) and not is_none(value) else None


@memoize_on_node
def _is_debug(test: ast.expr) -> bool:
    """Return whether a test reads a debug flag, judging by its name."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_is_debug, test.values))
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq)):
        right = test.comparators[0]
        # The word may also be on the other side of a comparison, as in `if self.mode == "debug":`.
        return _is_debug(test.left) or (isinstance(right, ast.Constant) and right.value == "debug")
    if isinstance(test, ast.Call):
        if isinstance(test.func, ast.Attribute) and test.func.attr == "get":
            return _is_debug(test.func.value)
        return isinstance(test.func, ast.Attribute) and bool(DEBUG_NAME.search(test.func.attr))
    name = dotted(test)
    return name is not None and name != "__debug__" and bool(DEBUG_NAME.search(name))


def _text(test: ast.expr) -> str:
    return f"`if {source_text(test)}`"


# facts about names that follow from a test


def narrow(frame: Frame, env: dict[str, Value], test: ast.expr, branch: bool) -> None:
    """Add to `env` the facts about names and attributes that follow if the result of `test` is `branch`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        narrow(frame, env, test.operand, not branch)
    elif isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is branch:
            for value in test.values:
                narrow(frame, env, value, branch)
        else:
            # If `PIN` is known to be true, `PIN and not x.is_pinned()` depends only on its second part.
            open_parts = [value for value in test.values if not _is_fixed(frame, value, not branch)]
            if len(open_parts) == 1:
                narrow(frame, env, open_parts[0], branch)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        asked = asked_for_type(test)
        if asked is not None:
            _narrow_call(frame, env, asked, branch is asks_for_yes(test))
        else:
            _narrow_none(frame, env, test, branch)
    elif isinstance(test, ast.Call):
        _narrow_call(frame, env, test, branch)
    else:
        answered = _type_test(frame, test)
        if answered is not None:
            _narrow_call(frame, env, answered, branch)
        if branch:
            _update(frame, env, test, without_none)


@memoize_on_node
def asked_for_type(test: ast.Compare) -> ast.Call | None:
    """For a comparison of types, return the call `isinstance(x, T)` that asks nearly the same or the opposite. Examples
    are `type(x) == T`, `type(x) in (S, T)` and `type(x) is not T`. Return None for other comparisons."""
    left, kinds = test.left, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    asks = isinstance(left, ast.Call) and dotted(left.func) == "type" and len(left.args) == 1
    if not isinstance(left, ast.Call) or not asks or len(test.ops) > 1 or not isinstance(test.ops[0], kinds):
        return None
    call = ast.Call(ast.Name("isinstance", ast.Load()), [left.args[0], test.comparators[0]], [])
    return ast.fix_missing_locations(ast.copy_location(call, test))


def asks_for_yes(test: ast.expr) -> bool:
    """Return whether a comparison asks for equality or membership, and not for the opposite."""
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In))


def _type_test(frame: Frame, test: ast.expr) -> ast.Call | None:
    """Return the call `isinstance(x, T)` whose result was assigned to a local name, if `x` has not been rebound since
    the call."""
    if not isinstance(test, ast.Name):
        return None
    bound = provenance.bound_expression(frame, test)
    if not (isinstance(bound, ast.Call) and dotted(bound.func) == "isinstance" and bound.args):
        return None
    asked = ast.copy_location(ast.Name(dotted(bound.args[0]) or "", ast.Load()), test)
    now = provenance.bound_expression(frame, asked)
    return bound if now is None or now is asked or now.lineno <= bound.lineno else None


def _is_fixed(frame: Frame, node: ast.expr, truth: bool) -> bool:
    """Return whether a part of a test is a name whose value is known to be `truth`. If so, the result depends only on
    the other parts."""
    value = frame.name(node.id) if isinstance(node, ast.Name) else None
    return type(value) is Number and value.overridable_by is None and value.const is truth


def _narrow_none(frame: Frame, env: dict[str, Value], test: ast.Compare, branch: bool) -> None:
    if is_none(test.comparators[0]) and isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
        found = isinstance(test.ops[0], (ast.Is, ast.Eq)) is branch
        _update(frame, env, test.left, (lambda value: NONE) if found else without_none)


def asks_for_parameter(frame: Frame, test: ast.expr) -> bool:
    """Return whether a test is `x is not None` for a parameter `x`."""
    if frame.node is None or not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.IsNot):
        return False
    return isinstance(test.left, ast.Name) and test.left.id in _parameters(frame.node)


@memoize_on_node
def _parameters(function: Definition) -> frozenset[str]:
    return frozenset(inner.arg for inner in ast.walk(function.args) if isinstance(inner, ast.arg))


def place(frame: Frame, test: ast.expr) -> None:
    """Record the device of `x` after `assert x.device.type == "cpu"`.

    An `if` with this test gives no information, because its body usually moves `x`.
    """
    if not (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)):
        return
    kind, device = test.left, getattr(test.comparators[0], "value", None)
    if device in ("cpu", "cuda") and (dotted(kind) or "").endswith(DEVICE_TYPE):
        where: Where = "host" if device == "cpu" else "device"
        tensor = kind.value.value  # type: ignore[attr-defined]

        def put(value: Value) -> Value:
            if type(value) is Unknown and where == "host":
                return Unknown(value.step, host=True)
            return join_all(replace(v, where=where) if type(v) is Tensor else v for v in options(value))

        _update(frame, frame.env, tensor, put)
        for name, value in frame.env.items():
            if type(value) is DeviceValue and value.where == "any":
                # A name may stand for the device, because of `device = x.device` before the assertion.
                frame.env[name] = replace(value, where=where)


def _narrow_call(frame: Frame, env: dict[str, Value], test: ast.Call, branch: bool) -> None:
    name = dotted(test.func) or ""
    if name == "isinstance" and len(test.args) == 2:
        wanted = type_tests.named_types(frame, test.args[1])
    elif name in ("torch.is_tensor", "is_tensor") and test.args:
        wanted = {"Tensor"}
    elif branch and isinstance(test.func, ast.Attribute) and test.func.attr == "is_pinned":
        _update(frame, env, test.func.value, _pinned)
        return
    else:
        return

    def keep(value: Value) -> Value:
        if branch and type(value) is Instance and value.declared:
            return _as_subclass(frame, value, test.args[-1])
        if type(value) is Unknown:
            if branch and wanted == {"Tensor"}:
                return Tensor(where="any", step=value.step)
            if branch and wanted == {"ndarray"}:
                return ARRAY
            if branch and wanted == {"PackedSequence"}:
                return packed_sequences.of(Tensor("device" if value.device else "any", step=value.step))
            if branch and wanted and wanted <= {"int", "float", "bool", "str"}:
                return Number()
            cls = _class_named(frame, test.args[-1]) if branch else None
            return value if cls is None else Instance(cls.ref, step=value.step, declared=True)
        left = [option for option in options(value) if type_tests.is_a(option, wanted) is not (not branch)]
        if not branch and may_be_none(value) is not False:
            left.append(NONE)
        return join_all(left) if left else value

    _update(frame, env, test.args[0], keep)


def _pinned(value: Value) -> Value:
    return join_all(replace(v, pinned=True, where="host") if type(v) is Tensor else v for v in options(value))


def _as_subclass(frame: Frame, value: Instance, node: ast.expr) -> Value:
    """Return an object after an `isinstance` test for a subclass. Before the test, only an annotation has shown the
    object's class."""
    wanted = _class_named(frame, node)
    return replace(value, ref=wanted.ref) if wanted and value.ref in frame.project.mro(wanted.ref) else value


def _class_named(frame: Frame, node: ast.expr) -> ClassValue | None:
    """Return the class of the project that a name stands for, or None."""
    name = dotted(node)
    named = frame.name(name) if name is not None and "." not in name else None
    return named if type(named) is ClassValue else None


def _update(frame: Frame, env: dict[str, Value], node: ast.expr, change: object) -> None:
    text = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    if isinstance(node, ast.NamedExpr):
        text = node.target.id
    if text is None:
        return
    if text in env:
        value: Value = env[text]
    elif isinstance(node, ast.Attribute):
        value = frame.evaluate_quietly(node)
    else:
        return
    new = change(value)  # type: ignore[operator]
    if new is not value and new != value:
        env[text] = new
