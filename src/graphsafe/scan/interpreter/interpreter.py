"""Interprets functions over abstract values, follows their calls, and records the effects of each hot line.

A function is read once for each different set of arguments. Effects are stored by place (a span of a file), so that a
line gives one event even if several chains of calls lead to it. The calls are stored separately, as edges between
functions, and a chain of calls is looked up only for a finding.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Set
from typing import Any

from graphsafe.optable import OpTable
from graphsafe.report.model import Confidence, Level
from graphsafe.rulebook.libraries import Libraries
from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.domain.arguments import Arguments, Call, behind_partial, unknown_result
from graphsafe.scan.domain.events import Event, plainness, span_of
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import as_declared, state_of
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.queries import Queries
from graphsafe.scan.domain.record import Edge, Failure, Place
from graphsafe.scan.domain.state_log import Read, Use, UseKind
from graphsafe.scan.domain.summary import Effects, Included, Item, NewRoot, Shared, Summary, summary_of
from graphsafe.scan.domain.values import (
    NONE,
    UNKNOWN,
    Function,
    Instance,
    Passed,
    Tensor,
    Unknown,
    Value,
    depends_on_step,
    holds_device,
    of_elements,
)
from graphsafe.scan.domain.widening import widened
from graphsafe.scan.execution.budget import MANY_KINDS, MAX_COLD, CallBudget, Scope
from graphsafe.scan.execution.frame import Frame, Result
from graphsafe.scan.interpreter import attributes, expressions, members, rounds, statements
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.calls import calls, decorators, parameters
from graphsafe.scan.interpreter.calls.closures import Closures
from graphsafe.scan.interpreter.conditions import event_guards
from graphsafe.scan.interpreter.module_level import ModuleLevel
from graphsafe.scan.models import named_calls, platforms
from graphsafe.scan.sources.node_memo import expression_text
from graphsafe.scan.state import straight_line
from graphsafe.scan.state.filled_once import is_filled_here
from graphsafe.scan.state.first_step_tests import CALLED_SELDOM, draws_pictures
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.overrides import Overrides
from graphsafe.scan.symbols.project import Project

HOT = 3
"The layer of questions about hot code in the cache (`Queries`). Questions about cold code belong to the lower layers."
MAX_DEPTH = 150
"The largest depth to which nested calls are followed."
LONG_CHAIN = "the chain of calls to it is too long; it is read by itself, and its result counts as unknown"


class Interpreter:
    def __init__(
        self,
        project: Project,
        ops: OpTable,
        cold: parameters.ColdTest,
        libraries: Libraries,
        scope: Scope | None,
        is_named_cold: parameters.ColdTest,
    ) -> None:
        """`is_named_cold` returns whether a function is cold only because the `cold-paths` setting names it."""
        self.project = project
        self.budget = CallBudget(project, scope)
        self.ops = ops
        self.cold = cold
        self.is_named_cold = is_named_cold
        self.libraries = libraries
        self.queries = Queries()
        self.effects = Effects()
        "The effects of the lines that are being read."
        self.attributes = attributes.AttributeTables(self)
        self.globals = ModuleLevel(self)
        self.overrides = Overrides(project, self.budget.holds)
        self.closures = Closures(self)
        self.expressions = expressions.HANDLERS
        self.loops_of: Callable[[str], tuple[int, ...] | None] = lambda ref: None
        "A function that returns the step loops in a function (roots/loop_roots.py)."
        self.applied: Set[str] = frozenset()
        self._shared = Shared()

    # events

    def emit(
        self,
        frame: Frame,
        kind: EventKind,
        how: str,
        node: ast.AST,
        confidence: Confidence,
        level: Level | None,
        words: dict[str, str],
    ) -> None:
        span = span_of(node)
        guard, once, doubtful = event_guards.around(frame, kind, how, node)
        if doubtful:
            confidence = "possible"
        place = Place(frame.path, frame.function, span, kind, how)
        known = self.effects.events.get(place)
        rank = guard is not None, confidence == "possible"
        if known is None or rank < plainness(known[1])[:2]:
            if "expr" not in words:
                words["expr"] = expression_text(node)
            event = Event(kind, how, span, confidence, guard, level, words, once, frame.compile_test)
            self.effects.events[place] = self._shared.event(place, event)

    def note(self, item: Item) -> None:
        """Record an effect of a line, in the order of the step. Equal items are stored as one object, which all
        summaries share."""
        self.effects.items.append(self._shared.item(item))

    def use_number(self, frame: Frame, value: Value, kind: UseKind, node: ast.AST) -> None:
        for state in state_of(value):
            line: int = node.lineno  # type: ignore[attr-defined]
            self.note(Use(state, kind, frame.path, frame.function, line))

    # expressions, for handlers and models

    def call_value(self, frame: Frame, node: ast.Call, value: Value, arguments: Arguments) -> Value:
        return calls.call_value(frame, node, value, arguments)

    def attribute(self, frame: Frame, node: ast.expr, owner: Value, name: str, text: str | None) -> Value:
        return members.attribute(frame, node, owner, name, text)

    def note_read(self, frame: Frame, key: str, own: bool = False) -> None:
        """Record that hot code reads an attribute or a global. `own`: whether the same call has set it before."""
        self._note_once(Read(key, frame.ref, frame.captured, own))

    def note_call(self, frame: Frame, node: ast.AST, ref: str, line: int = 1) -> None:
        line = getattr(node, "lineno", line)
        self._note_once(Edge(ref, frame.ref, line, frame.guard is not None, frame.compile_test))

    def _note_once(self, item: Item) -> None:
        item = self._shared.item(item)
        if id(item) not in self.effects.noted:
            self.effects.noted.add(id(item))
            self.effects.items.append(item)

    # calls

    def call(self, frame: Frame, node: ast.AST, function: Function, arguments: Arguments) -> Value:
        if function.node is not None:
            return self.closures.call(frame, node, function, arguments)
        ref = function.ref
        facts = self.project.function_facts(ref)
        if facts is None:
            return unknown_result(arguments)
        path, _, qualified = ref.partition("::")
        file = self.project.files.index(path) if self.libraries.called else None
        if file is not None:
            named_calls.note(frame, node, f"{file.module}.{qualified}")
        out_of_scope = self.budget.out_of_scope(ref, frame.hot, frame.depth, frame.out_of_scope, frame.composes)
        if out_of_scope is None:
            return self.declared(ref, arguments)
        # The code around a capture runs once, so the `cold-paths` setting may name this code. The captured code is hot
        # nevertheless.
        captured = frame.captured and self.is_named_cold(ref, facts)
        hot = frame.hot and not facts.captures and (captured or not self.cold(ref, facts))
        hot = hot and not (frame.step_loops and CALLED_SELDOM.search(qualified))
        if hot:
            self.note_call(frame, node, ref, facts.line)
        arguments = decorators.passed_on(self, function, behind_partial(function, arguments))
        is_shown = draws_pictures(qualified) or self._shows_itself(frame, ref)
        guarded = frame.guard is not None or bool(frame.unlikely) or is_shown
        once = not guarded and bool(frame.lazy) and is_filled_here(frame)
        depth = 1 if frame.hot else frame.depth + 1
        # The code around graphs may call functions that no step runs: `if stale: self.load_weights(new)`.
        is_beside = frame.between or (frame.hot and not frame.captured and not facts.captures)
        composes, between = frame.composes and not hot, is_beside and not hot
        loops, bound = self.loops_of(ref) if composes else None, function.bound
        if loops is not None:
            rounds.note_steps(frame, node)
            # A script that makes the objects of a step loop is read only to learn which objects it makes.
            steps, beside = bool(loops), between and bool(loops)
            call = Call(ref, bound, arguments, not steps, depth, frame.level, False, False, loops, beside, steps)
        else:
            call = Call(ref, bound, arguments, hot, depth, frame.level, function.plain, captured, (), between, composes)
        seldom = frame.guard is None and frame.unlikely == frame.seldom
        return self.read(call, guarded, once, out_of_scope, straight_line.contains(frame, node), seldom)

    def _shows_itself(self, frame: Frame, ref: str) -> bool:
        """Return whether a method of an environment calls `render`. An environment does so for people who watch. A
        script's loop that calls `render` does so in each step."""
        if frame.owner is None or not ref.endswith(".render"):
            return False
        cls = ref.removesuffix(".render")
        return all(self.project.find_method(cls, one) for one in ("reset", "step"))

    def read(
        self,
        call: Call,
        guarded: bool = False,
        once: bool = False,
        out_of_scope: int = 0,
        sure: bool = False,
        seldom: bool = False,
    ) -> Value:
        """Return a function's result for these arguments. The function's effects count as effects of the call."""
        bound = call.bound
        owner = ref = ""
        if not (call.hot or call.composes) and call.depth >= MAX_COLD and type(bound) is Instance:
            # No further calls are followed from this level. So all classes that inherit the method can share one
            # summary.
            facts = self.project.function_facts(call.ref)
            if facts is not None and facts.owner is not None:
                owner, ref = f"{call.ref.partition('::')[0]}::{facts.owner}", bound.ref
                call = replace(call, bound=replace(bound, ref=owner))
        summary = self.summary(call, out_of_scope)
        if summary is None:
            if self.queries.depth > MAX_DEPTH and call.hot:
                self._read_later(call, guarded)
            return self.declared(call.ref, call.arguments)
        if not summary.is_empty:
            self.effects.items.append(Included(summary, call.ref, guarded, seldom, once=once, sure=sure))
        if not call.hot:
            self.attributes.include(summary, owner, ref)
        return summary.value

    def _read_later(self, call: Call, guarded: bool) -> None:
        """Make a function a root if the chain of calls to it is too long. Otherwise, its findings would be missed."""
        passed = widened(call.arguments)
        given = None if passed.further else Passed(passed.positional, tuple(passed.keywords.items()))
        root = NewRoot(call.ref, call.bound, "", guarded, given)
        try:
            hash(root)
        except TypeError:  # some constant in the arguments has no hash
            root = NewRoot(call.ref, None, "", guarded)
        self.note(root)
        self.note(Failure("not-followed", call.ref, LONG_CHAIN))

    def summary(self, call: Call, out_of_scope: int = 0) -> Summary | None:
        """Return the summary of a function for these arguments, or None if the function cannot be read or is already
        being read."""
        arguments = widened(call.arguments)
        if arguments is not call.arguments:
            call = replace(call, arguments=arguments)
        return self._summary(call, out_of_scope)

    def _summary(self, call: Call, out_of_scope: int) -> Summary | None:
        ref = call.ref
        key = call.question(out_of_scope)
        number = self.queries.known(key)
        if number is None and not self.budget.has_room_for(ref, key[-4:]):
            self.note(Failure("not-followed", ref, MANY_KINDS))
            return None
        if self.queries.depth > MAX_DEPTH:
            self.queries.rest_on_all()
            return None
        try:
            number = self.queries.number(key) if number is None else number
        except TypeError:
            # Some constant in the arguments has no hash, so the summary is not memoised.
            number = self.queries.number(("read", self.closures.next_id()))

        def work() -> Summary | None:
            # Most functions with a known summary have no syntax tree in memory.
            node = self.project.function_node(ref)
            if node is not None and not self.budget.has_readings_left(ref):
                self.note(Failure("not-followed", ref, MANY_KINDS))
                return None
            if node is None:
                return None
            return self.closures.in_another_function(
                lambda: self.collect(lambda: self._read(call, node, out_of_scope), ref)
            )

        return self.queries.answer(number, work, _no_summary, HOT if call.hot else call.level)

    def invalidate(self, changed: Callable[[Hashable], bool]) -> None:
        """Mark the cached answers to the questions that `changed` selects, and all answers that depend on them, as
        doubtful."""

        def is_same(old: object, new: object) -> bool:
            if type(old) is Summary and type(new) is Summary:
                return old.stands_for(new)
            return old == new

        self.queries.invalidate(changed, self._ask_again, is_same)

    def _ask_again(self, key: Any) -> bool:
        if key[0] == "attribute":
            _, ref, given, name, level = key
            self.attributes.of_instance(Instance(ref, given=given), name, level)
        elif key[0] == "read" and len(key) > 2:
            _, ref, *of_call, out_of_scope, bound, positional, given, further = key
            self._summary(Call(ref, bound, Arguments(positional, dict(given), further), *of_call), out_of_scope)
        else:
            return False
        return True

    def forget(self) -> None:
        """Free the cached answers when no more summaries are needed."""
        self.queries = Queries()
        self._shared = Shared()

    def collect(self, work: Callable[[], Value], ref: str) -> Summary:
        """Return the summary of `work`: its value, and the effects that it recorded. An exception in `work` becomes a
        failure in the record."""
        outer = self.effects
        self.effects = Effects(outer)
        try:
            value = work()
        except (RecursionError, MemoryError):
            # The size of the remaining stack depends on the calls around this call, so the summary is not memoised.
            self.queries.rest_on_all()
            self.note(Failure("not-followed", ref, "nested too deeply to be followed"))
            value = UNKNOWN
        except Exception as error:
            self.note(Failure("internal-error", ref, f"{type(error).__name__}: {error}"))
            value = UNKNOWN
        finally:
            effects, self.effects = self.effects, outer
        return summary_of(value, effects)

    def _read(self, call: Call, node: Definition, out_of_scope: int) -> Value:
        ref, arguments = call.ref, call.arguments
        self.budget.note_reading(ref)
        facts = self.project.function_facts(ref)
        file = self.project.file_of(ref)
        assert file is not None and facts is not None
        owner = f"{file.path}::{facts.owner}" if facts.owner is not None else None
        frame = Frame(self, file, ref, {}, call.hot, call.depth, owner, call.bound, out_of_scope=out_of_scope)
        frame.level, frame.captured, frame.step_loops = call.level, call.captured, call.loops
        frame.between, frame.composes = call.between, call.composes
        frame.guards += platforms.named_for_amd(file.module, facts.name)
        frame.guards += platforms.imported_at_top(frame)
        parameters.bind(frame, node, facts, call.bound, arguments)
        wrapper = decorators.wrapper(self, call, facts)
        result = self.run(frame, node) if wrapper is None else decorators.call_wrapper(frame, node, wrapper)
        if type(result) is Unknown and node.returns is not None:
            declared = annotated(self, file, node.returns)
            if type(declared) is not Unknown:
                is_step = depends_on_step(result) or any(map(depends_on_step, arguments.values()))
                result = _marked(as_declared(declared, result), is_step)
        return result

    def run(self, frame: Frame, node: Definition) -> Value:
        """Read the body of a function whose parameters are in the frame, and return its result."""
        frame.node = node
        falls_through = statements.execute(frame, node.body)
        if frame.yields:
            return of_elements("iterator", join_all(frame.yields))
        returns = [*frame.returns, NONE] if falls_through else frame.returns
        return join_all(returns) if returns else UNKNOWN

    def declared(self, ref: str, arguments: Arguments) -> Value:
        """Return the value that a function's annotation promises. This value is the result if the function is not
        read."""
        node = self.project.function_node(ref)
        file = self.project.file_of(ref)
        step = any(map(depends_on_step, arguments.values()))
        if node is None or file is None or node.returns is None:
            return Unknown(step, any(map(holds_device, arguments.values())))
        return _marked(annotated(self, file, node.returns), step)

    def is_cold(self, ref: str) -> bool:
        facts = self.project.function_facts(ref)
        return facts is not None and self.cold(ref, facts)

    def call_later(self, frame: Frame, node: ast.AST, ref: str, receiver: Value) -> None:
        if self.budget.holds(ref):
            self.note_call(frame, node, ref)
            self.note(NewRoot(ref, receiver, "", frame.guard is not None or bool(frame.unlikely)))

    def add_root(self, ref: str, receiver: Value | None, why: str, given: Passed | None = None) -> None:
        if self.budget.holds(ref):
            self.note(NewRoot(ref, receiver, why, given=given))

    def quietly(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work` without recording its effects."""
        outer = self.effects
        self.effects = Effects(outer)
        try:
            return work()
        finally:
            self.effects = outer


def _no_summary() -> None:
    """Return None. While a function is being read, its summary is not known."""


def _marked(value: Value, step: bool) -> Value:
    if step and isinstance(value, (Tensor, Instance)):
        return replace(value, step=True)
    return value
