"""Tells which hot lines (lines that run in every step) a graph will contain, and which lines are host code around the
graph.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from graphsafe.report.model import Region
from graphsafe.scan.domain.record import AROUND_GRAPHS, HANDED, LOOP, WRAPPED, Edge, Place, Record
from graphsafe.scan.hazards.graph_syntax import LOOPS, captures_in, is_plain_replay, is_replay, own_nodes
from graphsafe.scan.linting.call_graph import CallGraph, root_of
from graphsafe.scan.linting.derived_weights import derived_by
from graphsafe.scan.roots.assumed_roots import (
    BY_FORM,
    CALLABLE,
    HOST_STEP,
    PARTS_CALLER,
    PUBLIC,
    RESULTS,
    STEP,
    UNCALLED,
    WAY,
)
from graphsafe.scan.roots.hot_roots import BY_LIBRARY, FORWARD, HOT_PATH_AROUND, METRIC
from graphsafe.scan.sources.node_memo import inside, memoize_method
from graphsafe.scan.state.provenance import CONSTRUCTORS
from graphsafe.scan.state.refilled_weights import Derived
from graphsafe.scan.symbols.index import dotted
from graphsafe.scan.symbols.project import Project, ref_of

_PAUSES = b"time.sleep(", b"ray.get("
"Calls that wait for time or for other processes. No graph contains such calls."
_HOST_STORES = re.compile(r"(Buffer|Replay|Memory|Storage)\w*\.\w+$")
"Matches methods of classes that keep a step's inputs on the host, such as replay buffers."
_GENERATORS = re.compile(r"Generator\w*\.__call__$")
"Matches callables that generate a sequence. The host decides after each token whether to generate another one."
_NOT_COMPILED = re.compile(r"(^|\.)(_?dynamo|compiler)\.disable\b")
"Matches decorators that keep a function out of compiled code, and so out of its graphs."
_PREFILL, _DECODE = re.compile("prefill", re.I), re.compile("decode", re.I)
Lines = tuple[int, int]
"The first and the last line."


class Regions:
    """Finds the region of each line.

    A function that replays a graph is not inside a graph, and neither are functions that only such functions call.
    Coroutines are outside of graphs too, because an event loop runs them. The same is true of functions that sleep or
    wait for other processes.
    """

    def __init__(
        self,
        project: Project,
        record: Record,
        calls: CallGraph,
        with_graphs: Set[str],
        has_unread_module: Callable[[], bool],
    ) -> None:
        """`with_graphs` are the files of packages that capture or replay graphs themselves. `has_unread_module` returns
        whether a file that was not read defines a module."""
        self._project = project
        self._blocks: dict[str, list[Lines]] = {}
        "Function -> its blocks that capture."
        hot = {*record.edges, *record.roots}
        replaying = {ref for ref in hot if self._replays(ref) or self._pauses(ref)}
        # In a project without captures, users may capture an engine's entry points and functions that look like steps.
        # In a project with captures, such functions count as host code.
        around = (AROUND_GRAPHS, HANDED, *BY_FORM)
        # If a project has modules, its users capture the modules. Its public functions may then run inside or outside
        # the graph.
        reasons = {*record.roots.values()}
        with_modules = not reasons.isdisjoint((FORWARD, WAY)) or (PUBLIC in reasons and has_unread_module())
        begun = [
            ref
            for ref, why in record.roots.items()
            if ref not in replaying
            # Roots with these reasons are left out, because users seldom capture them as a whole. The host waits for
            # the numbers that some of them return. A plain class may be a module or the engine around a module. Metrics
            # are updated after a step.
            and why not in (RESULTS, UNCALLED, LOOP, HOT_PATH_AROUND, WAY, PARTS_CALLER, METRIC, HOST_STEP, BY_LIBRARY)
            and not (why == PUBLIC and with_modules)
            and not (why == STEP and _HOST_STORES.search(ref))
            and not (why == CALLABLE and _GENERATORS.search(ref))
            and not (why in around and ref.partition("::")[0] in with_graphs)
        ]
        for ref in hot:
            facts = project.function_facts(ref)
            node = project.function_node(ref) if facts is not None and facts.captures else None
            if node is not None:
                blocks = captures_in(node)
                self._blocks[ref] = [(one.body[0].lineno, one.end_lineno or one.lineno) for one in blocks]
        by_block = {ref: [edge.callee for edge in calls.calls_in(ref, lines)] for ref, lines in self._blocks.items()}
        called = [callee for callees in by_block.values() for callee in callees]
        # If the code does not show which module a block calls, the block may call any module that the file defines or
        # imports.
        near = {cls for ref, callees in by_block.items() if not callees for cls in self._named_in(ref)}
        modules = [
            ref for ref, why in record.roots.items() if why == FORWARD and near and ref.rpartition(".")[0] in near
        ]
        wrapped = [ref for ref, why in record.roots.items() if why.startswith(WRAPPED)]
        self._held = calls.reached([*called, *modules, *wrapped], without=replaying)
        # `Graphed(net)` runs a constructor, so the name of its class counts as the name of a capturing function.
        names = (ref.rpartition("::")[2].removesuffix(".__init__") for ref in self._blocks)
        self._capturing = {name.rpartition(".")[2] for name in names}
        self._calls = calls
        self._chains = calls.chains()
        self._leading = record.leading
        self._graphs: dict[int, CallGraph] = {}
        "Id of the calls that lead to some events -> these calls as a graph."
        unready = {
            place.ref
            for place, event in record.events.items()
            if event.how == "no-warmup" and event.confidence == "likely"
        }
        ready = [callee for ref, callees in by_block.items() if ref not in unready for callee in callees]
        begun_in_capture = [callee for ref in sorted(unready) for callee in by_block.get(ref, ())]
        self._first_run = calls.reached(begun_in_capture, without=replaying) - calls.reached(ready, without=replaying)
        # The host runs loops around models, and a prompt may have any length. So such loops, code that processes
        # prompts, and functions that are never compiled are in no graph, unless a capture of the project contains them.
        beside = {
            ref
            for ref in hot
            if record.roots.get(ref) == LOOP
            or _prefills(ref.partition("::")[2])
            or any(map(_NOT_COMPILED.search, project.decorators(ref)))
        }
        self._in_graphs, self._beside = [*begun, *called], replaying | (beside - self._held)
        self._captured = calls.reached(self._in_graphs, self._beside)
        self._begun = frozenset(begun)
        self._hot = hot

    def _in_block(self, ref: str, line: int) -> bool:
        return any(first <= line <= last for first, last in self._blocks.get(ref, ()))

    def chain_to(self, place: Place) -> Sequence[Edge]:
        """Return the shortest chain of calls from a root to an event. For an event in a graph, the root is in the same
        graph, if possible. The chain is empty if the event's function itself is the root."""
        chain = self._exact_chain(place)
        if self.of_event(place) != "captured" or self._begins_in_graph(place, chain):
            return chain
        # The nearest root is host code around the graphs. It does not show why a graph contains the line.
        calls = self._calls_to(place)
        if calls is self._calls:
            return self._from_captures.get(place.ref, chain)
        return calls.captured_chains(self._begun & calls.roots.keys(), self._blocks, self._captured).get(
            place.ref, chain
        )

    @memoize_method
    def _exact_chain(self, place: Place) -> Sequence[Edge]:
        leading = self._leading.get(place)
        if leading is None:
            return self._chains.get(place.ref, ())
        if leading.chain is not None:
            root = root_of(leading.chain, place.ref)
            if self._calls.is_certain(root) or (
                root in self._calls.roots and not any(map(self._calls.is_certain, leading.begun))
            ):
                return leading.chain
        return self._calls_to(place).chains().get(place.ref, self._chains.get(place.ref, ()))

    @memoize_method
    def of_event(self, place: Place) -> Region | None:
        """Return the region of an event, or None if no step leads to it."""
        ref, line = place.ref, place.span[0]
        region = self.of(ref, line)
        if region != "captured" or self._in_block(ref, line) or self._begins_in_graph(place, self._exact_chain(place)):
            return region
        return "captured" if ref in self._calls_to(place).reached(self._in_graphs, self._beside) else "step"

    def _calls_to(self, place: Place) -> CallGraph:
        """Return the calls that lead to an event, or all calls if the record lacks them."""
        leading = self._leading.get(place)
        if leading is None:
            return self._calls
        known = self._graphs.get(id(leading))
        if known is None:
            known = self._graphs[id(leading)] = self._calls.only(leading)
        return known

    def _begins_in_graph(self, place: Place, chain: Sequence[Edge]) -> bool:
        root, line = root_of(chain, place.ref), chain[0].line if chain else place.span[0]
        return root in self._begun or self._in_block(root, line)

    @cached_property
    def _from_captures(self) -> Mapping[str, Sequence[Edge]]:
        """A chain of calls from a capture, or from a root that users capture, to each function in a graph."""
        return self._calls.captured_chains(self._begun, self._blocks, self._captured)

    def of(self, ref: str, line: int) -> Region | None:
        """Return the region of a line, or None if no step runs the line."""
        if ref in self._captured or self._in_block(ref, line):
            return "captured"
        return "step" if ref in self._hot else None

    def is_held(self, ref: str, line: int | None = None) -> bool:
        """Return whether a captured block of the project contains this line or calls the line's function."""
        return ref in self._held or (line is not None and self._in_block(ref, line))

    def runs_first_in_capture(self, ref: str) -> bool:
        """Return whether the first run of a function is in a capture, because no warm-up runs the function before."""
        return ref in self._first_run

    def is_around(self, ref: str, line: int) -> bool:
        """Return whether a line is host code: no graph contains it, and users capture no code that contains it."""
        return self.of(ref, line) != "captured"

    def recaptures(self, ref: str, line: int | None = None) -> bool:
        """Return whether a change in a function is always followed by a new capture: each call that reaches the change
        comes before a possible capture.

        The result is False if the function replays before `line` and no capture follows in the same block. It is also
        False if a loop around the change begins after the capture.
        """
        if any(is_plain_replay(inner) and inner.lineno < (line or 0) for _, inner in self._nodes(ref)):
            return self._captures_next(ref, line or 0)
        waiting, seen = [(ref, line or 0)], {ref}
        while waiting:
            function, at = waiting.pop()
            captures = self._captures_of(function)
            if captures and self._loops_after(function, at, max(captures)):
                return False
            if captures and function == ref and self._captured_before(ref, at, captures):
                return False
            if not captures:
                callers = self._calls.callers(function)
                if not callers:
                    return False
                waiting += [(caller, called) for caller, called in callers if caller not in seen]
                seen |= {caller for caller, _ in callers}
        return True

    def _captured_before(self, ref: str, line: int, captures: Sequence[int]) -> bool:
        """Return whether a line comes after conditional captures of its function: `if key not in self.graphs:
        self.capture(key)`. The condition must not depend on an attribute that the line assigns."""
        nodes = [inner for _, inner in self._nodes(ref)]
        tests = [one for one in nodes if isinstance(one, ast.If) and (one.end_lineno or one.lineno) < line]
        around = [one for one in tests for at in captures if one.lineno < at <= (one.end_lineno or 0)]
        stored = [one for one in nodes if isinstance(one, ast.Attribute) and one.lineno == line]
        changed = {one.attr for one in stored if isinstance(one.ctx, ast.Store)}
        asked = {one.attr for test in around for one in inside(test.test, ast.Attribute)}
        return len(around) == len(captures) and bool(changed) and changed.isdisjoint(asked)

    def _loops_after(self, ref: str, line: int, captured: int) -> bool:
        """Return whether a loop around a line begins after the last capture of the function."""
        return any(
            isinstance(inner, LOOPS) and captured < inner.lineno <= line <= (inner.end_lineno or inner.lineno)
            for _, inner in self._nodes(ref)
        )

    def captures_after(self, ref: str, line: int) -> bool:
        """Return whether a capture may follow a line that changes weights. The capture may be in the same function or,
        for each caller, in the statements after the call."""
        captures = self._captures_of(ref)
        if captures:
            return not self._loops_after(ref, line, max(captures))
        callers = self._calls.callers(ref)
        return bool(callers) and all(self._captures_next(caller, called) for caller, called in callers)

    def _captures_next(self, ref: str, line: int) -> bool:
        """Return whether a later statement in the same block captures unconditionally."""
        captures = {*self._captures_of(ref)}
        return any(
            isinstance(one, (ast.Expr, ast.Assign)) and one.lineno in captures and first.lineno <= line
            for _, around in (self._nodes(ref) if captures else ())
            for name in ("body", "orelse")
            if isinstance(block := getattr(around, name, None), list)
            for position, first in enumerate(block)
            if line <= (first.end_lineno or first.lineno)
            for one in block[position + 1 :]
        )

    @memoize_method
    def _captures_of(self, ref: str) -> Sequence[int]:
        """Return the lines of a function that lead to a new capture: they call a capturing function or drop graphs, as
        `self.graphs.clear()` does."""
        found: list[int] = []
        for _, inner in self._nodes(ref):
            if isinstance(inner, ast.Call):
                holder, _, name = (dotted(inner.func) or "").rpartition(".")
                if name in self._capturing or (name == "clear" and "graph" in holder):
                    found.append(inner.lineno)
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and "graph" in inner.attr:
                found.append(inner.lineno)
        return found

    def is_set_for_captures(self, key: str) -> bool:
        """Return whether a capturing method, except a constructor, assigns an attribute. Each graph then has its own
        value for the attribute."""
        cls, _, name = key.rpartition(".")
        facts = self._project.class_facts(cls) if "::" in cls else None
        methods = facts.writers.get(name, ()) if facts is not None else ()
        return any(f"{cls}.{method}" in self._blocks for method in methods if method != "__init__")

    def is_read_around(self, key: str) -> bool:
        """Return whether code around the graphs reads an attribute of an object, and no such code assigns it.

        A read on an object of unknown class is included if only one class of the project assigns an attribute with that
        name.
        """
        project = self._project
        owner, _, name = key.rpartition(".")
        found = False
        for path in project.files.names:
            file = project.files.index(path) if name.encode() in (project.files.data(path) or b"") else None
            if file is None:
                continue
            if any(name in cls.writers and f"{path}::{cls.name}" != owner for cls in file.classes.values()):
                return False
            for ref in (f"{path}::{function}" for function in file.functions if not function.endswith(CONSTRUCTORS)):
                for _, inner in self._nodes(ref):
                    if isinstance(inner, ast.Attribute) and inner.attr == name and not self.is_held(ref, inner.lineno):
                        if isinstance(inner.ctx, ast.Store):
                            return False
                        found = True
        return found

    def runs_around(self, ref: str) -> bool:
        """Return whether code around the graphs, other than constructors and code that captures, calls a function."""
        return any(
            self.is_around(caller, line) and not self._captures_of(caller) and not caller.endswith(CONSTRUCTORS)
            for caller, line in self._calls.callers(ref)
        )

    @memoize_method
    def derived_in(self, cls: str) -> Sequence[Derived]:
        """Return the attributes that the methods of a class compute from other attributes. Constructors and methods
        that capture are left out, because GS705 reports the values that they compute for a graph."""
        facts = self._project.class_facts(cls) if "::" in cls else None
        path = cls.partition("::")[0]
        found = []
        for function in facts.methods.values() if facts is not None else ():
            ref = f"{path}::{function}"
            node = self._project.function_node(ref) if not self.is_held(ref) else None
            if node is not None and not ref.endswith(CONSTRUCTORS) and not self._captures_of(ref):
                found += [Derived(name, sources, ref) for name, sources in derived_by(node).items()]
        return found

    def _named_in(self, ref: str) -> Iterator[str]:
        """Yield the classes that the file of a function defines or imports."""
        file = self._project.file_of(ref)
        for name in (*file.classes, *file.imports) if file is not None else ():
            cls = ref_of(self._project.meaning(file, name), "class")
            if cls is not None:
                yield cls

    def _replays(self, ref: str) -> bool:
        file = self._project.file_of(ref)
        return file is not None and file.replays and any(is_replay(inner) for _, inner in self._nodes(ref))

    def _nodes(self, ref: str) -> Iterable[tuple[ast.AST, ast.AST]]:
        """Return the nodes of a function, each with its parent, except those of inner functions."""
        node = self._project.function_node(ref)
        return own_nodes(node) if node is not None else ()

    def _pauses(self, ref: str) -> bool:
        facts = self._project.function_facts(ref)
        path = ref.partition("::")[0]
        if facts is None or facts.is_async or not self._may_pause(path):
            return facts is not None and facts.is_async
        lines = "\n".join(self._project.files.source(path).lines_of(facts.line, facts.end_line)).encode()
        return any(call in lines for call in _PAUSES)

    @memoize_method
    def _may_pause(self, path: str) -> bool:
        data = self._project.files.data(path) or b""
        return any(call in data for call in _PAUSES)


def _prefills(name: str) -> bool:
    """Return whether a name of a function or class says that it processes prompts."""
    _, *after = _PREFILL.split(name)
    return bool(after) and _DECODE.search(after[-1]) is None
