"""Interprets functions over abstract values, follows their calls, and notes what each hot line does.

A function is read once for each different set of arguments. What its lines do is kept by place, so that a line reached
in several ways gives one event; how it was reached is kept apart, as edges between functions, and a chain of calls is
looked up only for what is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from typing import Any

from graphsafe.libraries import Libraries
from graphsafe.optable import OpTable
from graphsafe.report.model import Confidence, Level
from graphsafe.scan.checks.filled_once import is_filled_here
from graphsafe.scan.domain.arguments import Arguments, Call, unknown_result
from graphsafe.scan.domain.events import Event, EventKind, precedence, span_of
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import state_of
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.queries import Queries
from graphsafe.scan.domain.record import Failure, Place
from graphsafe.scan.domain.state_log import Use, UseKind
from graphsafe.scan.domain.summary import (
    Effects,
    Included,
    Item,
    NewRoot,
    PassedByName,
    RootSite,
    Shared,
    Summary,
    summary_of,
)
from graphsafe.scan.domain.values import (
    NONE,
    UNKNOWN,
    Function,
    Instance,
    Tensor,
    Unknown,
    Value,
    depends_on_step,
    holds_device,
    of_elements,
)
from graphsafe.scan.domain.widening import widened
from graphsafe.scan.interpreter import attributes, expressions, members, state_writes, statements
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.interpreter.calls import calls, decorators, parameters
from graphsafe.scan.interpreter.calls.budget import MAX_COLD, CallBudget, Scope
from graphsafe.scan.interpreter.calls.closures import Closures
from graphsafe.scan.interpreter.calls.name_based_arguments import passed_by
from graphsafe.scan.interpreter.conditions import event_guards
from graphsafe.scan.interpreter.module_level import ModuleLevel
from graphsafe.scan.models import named_calls, platforms
from graphsafe.scan.sources.node_memo import expression_text
from graphsafe.scan.symbols.custom_ops import CustomOps
from graphsafe.scan.symbols.environment import Variables
from graphsafe.scan.symbols.overrides import Overrides
from graphsafe.scan.symbols.project import Project

HOT = 3
"The layer of questions about hot code, above those of the levels at which cold code is read."
MAX_DEPTH = 150
"How deep calls are followed."


class Engine:
    def __init__(
        self,
        project: Project,
        ops: OpTable,
        cold: parameters.ColdTest,
        libraries: Libraries | None = None,
        scope: Scope | None = None,
        is_named_cold: parameters.ColdTest = lambda ref, facts: False,
    ) -> None:
        """`is_named_cold`: whether a function is cold because cold-paths name it, and for no other reason."""
        self.project = project
        self.budget = CallBudget(project, scope)
        self.ops = ops
        self.cold = cold
        self.is_named_cold = is_named_cold
        self.libraries = libraries or Libraries()
        self.queries = Queries(project.files.uses)
        self.effects = Effects()
        "What the lines do that are being read."
        self.attributes = attributes.AttributeTables(self)
        self.globals = ModuleLevel(self)
        self.overrides = Overrides(project, self.budget.holds)
        self.custom_ops = CustomOps(project)
        self.variables = Variables(project)
        self.closures = Closures(self)
        self._shared = Shared()

    # events

    def emit(
        self,
        frame: Frame,
        kind: EventKind,
        how: str,
        node: ast.AST,
        confidence: Confidence = "likely",
        level: Level | None = None,
        **words: str,
    ) -> None:
        if not frame.hot:
            return
        span = span_of(node)
        guard, once, doubtful = event_guards.around(self, frame, kind, how, node)
        if doubtful:
            confidence = "possible"
        place = Place(frame.path, frame.function, span, kind, how)
        known = self.effects.events.get(place)
        if known is None or precedence(guard, confidence) > precedence(known[1].guard, known[1].confidence):
            if "expr" not in words:
                words["expr"] = expression_text(node)
            event = Event(kind, how, span, confidence, guard, level, words, once, frame.compile_test)
            self.effects.events[place] = self._shared.event(place, event)

    def note(self, item: Item) -> None:
        """Something that a line does, at its place in the order of the step; all summaries share equal items."""
        self.effects.items.append(self._shared.item(item))

    def use_number(self, frame: Frame, value: Value, kind: UseKind, node: ast.AST) -> None:
        """Note that a host number which is state decides what the device does here."""
        state = state_of(value) if frame.hot else None
        if state is not None:
            line: int = node.lineno  # type: ignore[attr-defined]
            self.note(Use(state, kind, frame.path, frame.function, line))

    # expressions, for handlers and models that meet others inside theirs

    def evaluate(self, frame: Frame, node: ast.expr) -> Value:
        """The value of an expression; what it does is noted."""
        if type(node) is ast.Name and node.id not in frame.globals:
            # Every other expression is a name, and most names are local.
            local = frame.env.get(node.id)
            if local is not None:
                return local
        handler = expressions.HANDLERS.get(type(node))
        return UNKNOWN if handler is None else handler(self, frame, node)

    def evaluate_quietly(self, frame: Frame, node: ast.expr) -> Value:
        """The value of an expression, read once more without noting what it does."""
        return self.quietly(lambda: self.evaluate(frame, node))

    def call_value(self, frame: Frame, node: ast.Call, value: Value, arguments: Arguments) -> Value:
        """What calling a value gives, whatever it is."""
        return calls.call_value(self, frame, node, value, arguments)

    def attribute(self, frame: Frame, node: ast.expr, owner: Value, name: str, text: str | None) -> Value:
        """What an attribute of a value holds; `text` is how the code writes it."""
        return members.attribute(self, frame, node, owner, name, text)

    def set_attribute(self, frame: Frame, node: ast.Call, owner: Value, name: str | None, value: Value) -> None:
        """`setattr(owner, name, value)`; None for a name that is chosen as the code runs."""
        state_writes.set_attribute(self, frame, node, owner, name, value)

    def note_once(self, item: Item) -> None:
        """As `note`, where only the first of equal items counts."""
        self._note_shared(self._shared.item(item))

    def note_call(self, frame: Frame, node: ast.AST, ref: str, line: int = 1) -> None:
        """Note that hot code calls a function; `line` where the node has none."""
        line = getattr(node, "lineno", line)
        self._note_shared(self._shared.call(ref, frame.ref, line, frame.guard is not None, frame.compile_test))

    def _note_shared(self, item: Item) -> None:
        if id(item) not in self.effects.noted:
            self.effects.noted.add(id(item))
            self.effects.items.append(item)

    # names

    def name(self, frame: Frame, name: str) -> Value:
        if name in frame.env:
            return frame.env[name]
        return self.globals.value(frame.file, name)

    # calls

    def call(self, frame: Frame, node: ast.AST, function: Function, arguments: Arguments) -> Value:
        """Read the function with these arguments; what it returns."""
        if function.node is not None:
            return self.closures.call(frame, node, function, arguments)
        ref = function.ref
        facts = self.project.function_facts(ref)
        if facts is None:
            return unknown_result(arguments)
        path, _, qualified = ref.partition("::")
        file = self.project.file(path) if self.libraries.called else None
        if file is not None:
            named_calls.note(self, frame, node, f"{file.module}.{qualified}")
        out_of_scope = self.budget.out_of_scope(frame, ref)
        if out_of_scope is None:
            return self.declared(ref, arguments)
        # What surrounds a capture runs once, before the first replay.
        captured = frame.captured and self.is_named_cold(ref, facts)
        hot = frame.hot and not facts.captures and (captured or not self.cold(ref, facts))
        if hot:
            self.note_call(frame, node, ref, facts.line)
        if function.partial or function.partial_keywords:
            arguments = Arguments(
                (*function.partial, *arguments.positional),
                {**dict(function.partial_keywords), **arguments.keywords},
                arguments.open,
            )
        arguments = decorators.passed_on(self, function, arguments)
        guarded = frame.guard is not None or bool(frame.unlikely) or (bool(frame.lazy) and is_filled_here(self, frame))
        depth = 1 if frame.hot else frame.depth + 1
        call = Call(ref, function.bound, arguments, hot, depth, frame.level, function.plain, captured)
        return self.read(call, guarded, out_of_scope)

    def read(self, call: Call, guarded: bool = False, out_of_scope: int = 0) -> Value:
        """What a function returns for these arguments; its effects count where it is called."""
        bound = call.bound
        owner = ref = ""
        if not call.hot and call.depth >= MAX_COLD and type(bound) is Instance:
            # No further call is followed from it, so one summary serves the objects of all classes that inherit it.
            facts = self.project.function_facts(call.ref)
            if facts is not None and facts.owner is not None:
                owner, ref = f"{call.ref.partition('::')[0]}::{facts.owner}", bound.ref
                call = replace(call, bound=replace(bound, ref=owner))
        summary = self.summary(call, out_of_scope)
        if summary is None:
            return self.declared(call.ref, call.arguments)
        if not summary.is_empty:
            self.effects.items.append(Included(summary, guarded))
        if not call.hot:
            self.attributes.include(summary, owner, ref)
        return summary.value

    def summary(self, call: Call, out_of_scope: int = 0) -> Summary | None:
        """The summary of a function for these arguments; None while it is being read, or where it cannot be."""
        arguments = widened(call.arguments)
        if arguments is not call.arguments:
            call = Call(call.ref, call.bound, arguments, call.hot, call.depth, call.level, call.plain, call.captured)
        return self._summary(call, out_of_scope)

    def _summary(self, call: Call, out_of_scope: int) -> Summary | None:
        ref, arguments = call.ref, call.arguments
        given = tuple(arguments.keywords.items())
        key: Hashable = (
            "read", ref, call.hot, call.depth, call.level, call.plain, call.captured, out_of_scope,
            call.bound, arguments.positional, given, arguments.open,
        )  # fmt: skip
        if self.queries.depth > MAX_DEPTH:
            self.queries.rest_on_all()
            return None
        try:
            number = self.queries.number(key)
        except TypeError:
            # A constant without a hash: the question is not memoised.
            number = self.queries.number(("read", self.closures.next_id()))

        def work() -> Summary | None:
            # Looked up only here: the syntax of most functions with a known summary is not in memory.
            node = self.project.function_node(ref)
            if node is None:
                return None
            with self.closures.of_another_function():
                return self.collect(lambda: self._read(call, node, out_of_scope), ref)

        return self.queries.answer(number, work, _no_summary, HOT if call.hot else call.level)

    def invalidate(self, changed: Callable[[Hashable], bool]) -> None:
        """Doubt the answers to these questions, and all that rest on them."""

        def is_same(old: object, new: object) -> bool:
            if type(old) is Summary and type(new) is Summary:
                return old.stands_for(new)
            return old == new

        self.queries.invalidate(changed, self._ask_again, is_same)

    def _ask_again(self, key: Any) -> bool:
        if key[0] == "attribute":
            self.attributes.of_instance(*key[1:])
        elif key[0] == "read" and len(key) > 2:
            _, ref, hot, depth, level, plain, captured, out_of_scope, bound, positional, given, is_open = key
            arguments = Arguments(positional, dict(given), is_open)
            self._summary(Call(ref, bound, arguments, hot, depth, level, plain, captured), out_of_scope)
        else:
            return False
        return True

    def forget(self) -> Queries:
        """Nobody will ask for summaries any more. The questions, for what their answers rested on."""
        queries, self.queries = self.queries, Queries()
        queries.forget_answers()
        self._shared = Shared()
        return queries

    def collect(self, work: Callable[[], Value], ref: str) -> Summary:
        """The summary of `work`: what it returns and notes. An exception in it becomes a failure of the record."""
        outer = self.effects
        self.effects = Effects(outer)
        try:
            value = work()
        except (RecursionError, MemoryError):
            # How much stack is left depends on the calls around it.
            self.queries.rest_on_all()
            self.note(Failure("not-followed", ref, "nested too deeply to be followed"))
            value = UNKNOWN
        except Exception as error:
            self.note(Failure("internal-error", ref, f"{type(error).__name__}: {error}"))
            value = UNKNOWN
        finally:
            effects, self.effects = self.effects, outer
        return summary_of(value, effects)

    def _read(self, call: Call, node: ast.FunctionDef | ast.AsyncFunctionDef, out_of_scope: int) -> Value:
        ref, arguments = call.ref, call.arguments
        self.budget.readings += 1
        facts = self.project.function_facts(ref)
        path = ref.partition("::")[0]
        file = self.project.file(path)
        assert file is not None and facts is not None
        owner = f"{path}::{facts.owner}" if facts.owner is not None else None
        frame = Frame(file, ref, {}, call.hot, call.depth, owner, call.bound, out_of_scope=out_of_scope)
        frame.level, frame.captured = call.level, call.captured
        frame.guards += platforms.named_for_amd(file.module, facts.name)
        parameters.bind(self, frame, node, facts, call.bound, arguments)
        wrapper = decorators.wrapper(self, call, facts)
        result = self.run(frame, node) if wrapper is None else decorators.call_wrapper(self, frame, node, wrapper)
        if type(result) is Unknown and node.returns is not None:
            declared = annotated(self, file, node.returns)
            if type(declared) is not Unknown:
                result = _marked(declared, depends_on_step(result) or any(map(depends_on_step, arguments.values())))
        return result

    def run(self, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        """What the body of a function returns, whose parameters are in the frame."""
        frame.node = node
        falls_through = statements.execute(self, frame, node.body)
        if frame.yields:
            return of_elements("iterator", join_all(frame.yields))
        if falls_through:
            frame.returns.append(NONE)
        return join_all(frame.returns) if frame.returns else UNKNOWN

    def declared(self, ref: str, arguments: Arguments | None = None) -> Value:
        """What the annotation of a function promises, for one that is not read."""
        node = self.project.function_node(ref)
        file = self.project.file(ref.partition("::")[0])
        step = arguments is not None and any(map(depends_on_step, arguments.values()))
        if node is None or file is None or node.returns is None:
            return Unknown(step, arguments is not None and any(map(holds_device, arguments.values())))
        return _marked(annotated(self, file, node.returns), step)

    def is_cold(self, ref: str) -> bool:
        facts = self.project.function_facts(ref)
        return facts is not None and self.cold(ref, facts)

    def call_later(self, frame: Frame, node: ast.AST, ref: str, receiver: Value) -> None:
        """Have a function read that a call may mean, with unknown arguments."""
        if self.budget.holds(ref):
            self.note_call(frame, node, ref)
            self.note(NewRoot(ref, receiver, "", frame.guard is not None or bool(frame.unlikely)))

    def add_root(self, ref: str, receiver: Value | None, why: str) -> None:
        if self.budget.holds(ref):
            self.note(NewRoot(ref, receiver, why))

    def add_root_site(self, frame: Frame) -> None:
        """The function that `frame` reads holds a capture: what stands inside it is hot."""
        self.note(RootSite(frame.ref))

    def note_passed(self, name: str, arguments: Arguments) -> None:
        """A method is called of which only the name is known."""
        for tensor in passed_by(arguments):
            self.note(PassedByName(name, tensor))

    def quietly(self, work: Callable[[], Value]) -> Value:
        """What `work` returns; what it does is not noted."""
        outer = self.effects
        self.effects = Effects(outer)
        try:
            return work()
        finally:
            self.effects = outer


def _no_summary() -> None:
    """While a function is being read, its summary is not known."""


def _marked(value: Value, step: bool) -> Value:
    if step and isinstance(value, (Tensor, Instance)):
        return replace(value, step=True)
    return value
