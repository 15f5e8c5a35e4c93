"""Functions that replay a graph. They fill its inputs, use its outputs, and wait between replays.

Only the syntax is read, because code with replays is seldom hot and only the names in the captured block matter.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import MappingProxyType

from graphsafe.report.model import Confidence
from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.domain.events import Event, span_of
from graphsafe.scan.domain.record import Place
from graphsafe.scan.hazards import (
    changed_outside,
    handed_tensors,
    kept_graphs,
    lost_memory,
    made_twice,
    outer_names,
    reseeds,
    stale_replays,
    unproven_graphs,
)
from graphsafe.scan.hazards.graph_syntax import (
    MEASURES,
    WARM_UP,
    Function,
    Line,
    ancestors,
    called_name,
    captures_in,
    constructed,
    entry,
    functions_in,
    head,
    is_host,
    is_plain_replay,
    is_view_of,
    own,
    own_names,
    own_nodes,
    parents_in,
    place,
    run_together,
    shared_loop,
    stored_names,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, bindings
from graphsafe.scan.hazards.inputs.mixed_rows import mixed_rows
from graphsafe.scan.hazards.inputs.partial_refills import PartialRefills
from graphsafe.scan.hazards.keys import captured_rounds, first_arguments, graph_keys
from graphsafe.scan.hazards.keys.number_names import number_fields
from graphsafe.scan.hazards.module_tensors import tables
from graphsafe.scan.hazards.outputs import kept_outputs
from graphsafe.scan.hazards.outputs.givers import Parts, imported_methods
from graphsafe.scan.hazards.outputs.kept_outputs import HANDS_OUT
from graphsafe.scan.hazards.outputs.kept_values import KEEPS, put, shown
from graphsafe.scan.hazards.same_objects import spelled_out
from graphsafe.scan.hazards.streams import copy_streams, unawaited_results
from graphsafe.scan.hazards.weights import other_weights, replaced_modules
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import dotted, elements, takes_slice
from graphsafe.scan.symbols.project import Project

TIMING = re.compile(r"\b(perf_counter\w*|elapsed_time|monotonic|time\.time|do_bench|enable_timing|profiler)\b")
_KINDS: Mapping[str, EventKind] = {
    "swallowed": "StreamOp",
    "captured-again": "StreamOp",
    "kept-alone": "StreamOp",
    "seeded-again": "Rng",
}
"The kinds of events that are not `AttrWrite`."
_NUMBER = re.compile(r"(Optional\[)?(int|float|bool)\]?( \| None)?")
"Matches the annotation of a parameter that takes a number."


def events(
    tree: ast.Module,
    module: str,
    helpers: handed_tensors.Helpers = MappingProxyType({}),
    runners: Mapping[str, Parts] = MappingProxyType({}),
    number_fields: Set[str] = frozenset(),
) -> Iterator[tuple[str, Event]]:
    """Yield the event of each line that conflicts with a capture or replay, with the qualified name of its function.
    `helpers` are imported functions that capture. `runners` are methods of imported classes that return a graph's
    outputs. `number_fields` are fields that are numbers in all classes of the project.
    """
    measures = bool(MEASURES.search(module.rpartition(".")[2]))
    found = tables(tree)
    found.imported, found.number_fields = runners, number_fields
    kept_graphs.note(found)
    handed_tensors.note(found, {**helpers, **handed_tensors.own_helpers(found)})
    methods = frozenset(name.rpartition(".")[2] for name, _, _ in found.functions if "." in name)
    for name, function, known in found.functions:
        if any(is_plain_replay(node) for _, node in own_nodes(function)):
            site = _Site(function, known, methods, measures or bool(MEASURES.search(name)))
            for event in site.events():
                yield name, event
    for name, how, node in unproven_graphs.lines(found):
        yield name, _event("StreamOp", how, node, ast.unparse(node))
    capturing = {name for table in found.all for name in table.capturing - table.replaying}
    for name, how, at, text, confidence in _changes(found) if not measures else ():
        # A function such as `warm_and_capture` does not only warm up. It makes the graph that other functions replay.
        if not MEASURES.search(WARM_UP.sub("", name) if name in capturing else name):
            yield name, _event(_KINDS.get(how, "AttrWrite"), how, at, text, confidence)


def _changes(found: Tables) -> Iterator[Line]:
    """Yield the lines that conflict with a replay."""
    for module in (
        changed_outside,
        other_weights,
        replaced_modules,
        outer_names,
        graph_keys,
        first_arguments,
        captured_rounds,
        lost_memory,
        copy_streams,
        unawaited_results,
        stale_replays,
        reseeds,
    ):
        yield from module.lines(found)


def placed_events(project: Project, path: str) -> dict[Place, Event]:
    """Return the events around graph replays in a file, in hot and in cold code."""
    file = project.files.index(path)
    if file is None:
        return {}
    tree = spelled_out(parse(project.files.source(path).text))
    helpers, runners = dict(_imported_helpers(project, path)), imported_methods(project, path)
    captures = any(map(captures_in, functions_in(tree)))
    fields = number_fields(project.files) if captures else frozenset[str]()
    return _placed(path, events(tree, file.module, helpers, runners, fields))


def _imported_helpers(project: Project, path: str) -> Iterator[tuple[str, Function]]:
    """Yield the imported functions and constructors that capture, by their names in this file."""
    file = project.files.index(path)
    for name in file.imports if file is not None else ():
        binding = project.resolve(file, name) if file is not None else None
        if binding is None or binding.kind not in ("function", "class"):
            continue
        ref = binding.ref if binding.kind == "function" else project.find_method(binding.ref, "__init__")
        facts = project.function_facts(ref) if ref is not None else None
        node = project.function_node(ref) if ref is not None and facts is not None and facts.captures else None
        if node is not None:
            yield name, node


def placed_metadata(project: Project, path: str) -> dict[Place, Event]:
    """Return the events about the metadata objects that a file makes for captures and for steps."""
    found = made_twice.lines(parse(project.files.source(path).text))
    return _placed(path, ((name, _event("AttrWrite", "made-twice", at, text)) for name, at, text in found))


def _placed(path: str, found: Iterable[tuple[str, Event]]) -> dict[Place, Event]:
    return {Place(path, function, event.span, event.kind, event.how): event for function, event in found}


class _Site:
    """One function, with the names of captured tensors. The function itself, or another method of its object, captures
    them."""

    def __init__(
        self, function: Function, captured: list[GraphTensors], methods: frozenset[str], measures: bool
    ) -> None:
        """`methods` are the names of methods that the file defines. A call of such a method does not count as a call of
        a container's method: the file's own `put`, for example, may copy its argument."""
        self._containers = KEEPS - methods
        self._measures = measures or bool(TIMING.search(ast.unparse(function)))
        self._function = function
        around = [one.scope for one in captured if isinstance(one.scope, Function) and one.scope is not function]
        local = own_names(function)
        self._outer = set().union(*map(own_names, around)) - local
        "The variables of the functions around this one."
        hidden = local if around else set()

        def seen(names: Callable[[GraphTensors], Set[str]]) -> set[str]:
            return {
                name
                for known in captured
                for name in names(known)
                if known.scope not in around or head(name) not in hidden
            }

        self._inputs = seen(lambda known: known.inputs)
        self._parts = seen(lambda known: known.parts)
        self._spread = seen(lambda known: set(filter(known.is_display, known.spread)))
        self._outputs = seen(lambda known: known.outputs)
        self._overwritten = seen(lambda known: known.overwritten)
        self._trains = any(called_name(call) == "backward" for known in captured for call in known.captured_calls)
        self._mixed = {*mixed_rows([code for known in captured for code in known.captured_code], self._inputs)}
        self._captures = [one for known in captured for one in (*known.blocks, *known.handing)]
        self._parents = parents_in(function)
        self._own = [function, *self._parents]
        capturing = {
            name.rpartition(".")[2]
            for known in captured
            for name in known.capturing - known.replaying
            if _captures_always(known.functions[name])
        }
        self._recaptures = [call for call in own(function, ast.Call) if called_name(call) in capturing]
        loops = [loop for loop in own(function, ast.For) if "." not in ast.unparse(loop.iter)]
        self._items = {name.id for loop in loops for name in inside(loop.target, ast.Name)}
        made = [pair for node in own(function, ast.Assign) for pair in bindings(node)]
        self._given = {one.arg for one in parameters(function)} - stored_names(self._own)
        annotated = [(one.arg, one.annotation) for one in parameters(function) if one.annotation is not None]
        given = {name for name, annotation in annotated if _NUMBER.fullmatch(ast.unparse(annotation))}
        self._numbers = {place(target) for target, value in made if isinstance(value, ast.Constant)}
        self._numbers |= {place(target) for target, value in made if isinstance(value, ast.Name) and value.id in given}
        # Numbers of the object. seen_by_graphs.py knows whether each graph has its own number.
        self._of_object = set().union(*(known.numbers for known in captured))
        self._replays = [*filter(is_plain_replay, own(function, ast.Call))]

    def events(self) -> Iterator[Event]:
        for node in self._own:
            if isinstance(node, ast.Assign):
                yield from self._rebound(node)
            if isinstance(node, ast.Call):
                yield from self._updated(node)
            if isinstance(node, (ast.Assign, ast.Call)):
                yield from self._kept(node)
        partly = PartialRefills(
            self._function, self._inputs, self._parts, self._overwritten, self._before_replay, self._trains, self._mixed
        )
        yield from (_event("AttrWrite", "partial-refresh", node, text, how) for node, text, how in partly.found())
        yield from self._carried()
        yield from self._waits()

    def _rebound(self, node: ast.Assign) -> Iterator[Event]:
        swapped = self._swapped(node)
        for target, value in bindings(node):
            text = place(target) or entry(target)
            if isinstance(target, ast.Subscript) and not takes_slice(target) and place(target.value) in self._spread:
                text = place(target.value)
            is_read = text in self._inputs | swapped or (
                isinstance(value, ast.Name) and self._holds_inputs(text, value.id)
            )
            if text is None or not is_read or is_host(value) or is_view_of(value, text):
                continue
            if self._before_replay(node) and text not in self._of_object - self._numbers:
                how = "number-changed" if text in self._numbers else "input-rebound"
                yield _event("AttrWrite", how, node, place(target) or ast.unparse(target))

    def _swapped(self, node: ast.Assign) -> Set[str | None]:
        """Return the names that a line exchanges, if captured code uses one of them: `self.a, self.b = self.b, self.a`.
        If the function chooses or exchanges graphs, there may be one for each order, and nothing is returned."""
        pairs = [(place(target), place(value)) for target, value in bindings(node)]
        names = {name for name, _ in pairs}
        made = [pair for one in own(self._function, ast.Assign) for pair in bindings(one)]
        chosen = {place(target) for target, value in made if constructed(value) is None}
        graphs = [one.func.value for one in self._replays if isinstance(one.func, ast.Attribute)]
        is_chosen = any(inside(one, ast.Subscript) or place(one) in chosen | self._items for one in graphs)
        exchanges = len(pairs) > 1 and names == {value for _, value in pairs} and None not in names
        return names if exchanges and not is_chosen and names & (self._inputs | self._overwritten) else set()

    def _updated(self, node: ast.Call) -> Iterator[Event]:
        """Yield the update of a dict whose tensors captured code reads: `self.inputs.update(batch)`."""
        table = place(node.func.value) if isinstance(node.func, ast.Attribute) and node.func.attr == "update" else None
        if (
            table is not None
            and any(name.startswith(f"{table}[") for name in self._inputs)
            and self._before_replay(node)
        ):
            yield _event("AttrWrite", "input-rebound", node, table)

    def _holds_inputs(self, text: str | None, value: str) -> bool:
        """Return whether a parameter of the function replaces an object whose attributes the graph reads: `self.batch =
        batch`, where captured code reads `self.batch.ids`."""
        return value in self._given and any(name.startswith(f"{text}.") for name in self._inputs)

    def _kept(self, node: ast.Assign | ast.Call) -> Iterator[Event]:
        holder, held = put(node, self._containers | HANDS_OUT)
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in self._items:
            holder, held = target.value, [node.value]  # type: ignore[union-attr]
        if holder is None:
            return
        function = node.func if isinstance(node, ast.Call) else None
        is_handed = isinstance(function, ast.Attribute) and function.attr in HANDS_OUT
        for value in held:
            names = (shown(part, self._parents) for part in elements(value))
            text = next((text for text in names if text in self._overwritten), None)
            if text is None or place(holder) in self._outputs | self._inputs:
                continue
            is_of_item = isinstance(holder, ast.Attribute) and place(holder.value) in self._items
            outlives = is_handed or is_of_item or head(place(holder) or "") in {"self", *self._outer}
            before = [one for one in self._replays if one.lineno < node.lineno and self._compatible(node, one)]
            if any(outlives or self._shared_loop(node, replay) for replay in before):
                yield _event("AttrWrite", "output-kept", node, text)
                return
            if before and function is not None and place(holder) in self._given:
                # The list may belong to a caller that reads it before the next replay.
                yield _event("AttrWrite", "output-kept", node, text, "possible")
                return

    def _carried(self) -> Iterator[Event]:
        """Yield lines that keep an output beyond the next replay: `graph.replay(); y - last; last = y`."""
        lines = [self._parents[replay] for replay in self._replays]
        found = (kept_outputs.carries(one, self._overwritten, self._parents) for one in lines if type(one) is ast.Expr)
        for line in dict.fromkeys(line for line in found if line is not None):
            yield _event("AttrWrite", "output-kept", line, ast.unparse(line.value))

    def _waits(self) -> Iterator[Event]:
        for node in own(self._function, ast.Call) if not self._measures else ():
            if not (dotted(node.func) or "").endswith(("cuda.synchronize", "accelerator.synchronize")):
                continue
            compatible = [replay for replay in self._replays if self._compatible(node, replay)]
            before = any(replay.lineno < node.lineno for replay in compatible)
            after = any(replay.lineno > node.lineno for replay in compatible)
            if (before and after) or any(self._shared_loop(node, replay) for replay in compatible):
                yield _event("StreamOp", "wait-between-graphs", node, ast.unparse(node))

    # order

    def _before_replay(self, node: ast.Assign | ast.Call) -> bool:
        """Return whether a replay follows the line, with no capture in between."""
        for replay in self._replays:
            loop = self._shared_loop(node, replay)
            if not self._compatible(node, replay) or not (replay.lineno > node.lineno or loop is not None):
                continue
            scope = loop or self._function
            if any(one.lineno > node.lineno and one in ast.walk(scope) for one in self._captures):
                continue
            # In a loop, the line and the capture may come after the replay.
            end = replay.lineno if replay.lineno > node.lineno else math.inf
            if any(node.lineno < call.lineno < end and self._beside(node, call) for call in self._recaptures):
                continue
            return True
        return False

    def _beside(self, node: ast.AST, call: ast.Call) -> bool:
        """Return whether a call is in the block of a line, and in no inner block. It then runs whenever the line runs:
        `self.x = x; self.capture()`."""
        around = self._parents.get(node)
        statement = next((one for one in ancestors(call, self._parents) if isinstance(one, ast.stmt)), None)
        return statement is not None and self._parents.get(statement) is around

    def _shared_loop(self, a: ast.AST, b: ast.AST) -> ast.AST | None:
        return shared_loop(a, b, self._parents)

    def _compatible(self, node: ast.AST, replay: ast.AST) -> bool:
        return run_together(node, replay, self._parents)


def _captures_always(function: Function) -> bool:
    """Return whether every call of a function captures. A call that may return an earlier graph does not always
    capture."""
    parents = parents_in(function)
    returns = [node.lineno for node in own(function, ast.Return)]
    return any(
        block.lineno < min(returns, default=block.lineno + 1)
        and not any(isinstance(one, ast.If) for one in ancestors(block, parents))
        for block in captures_in(function)
    )


def _event(kind: EventKind, how: str, node: ast.expr | ast.stmt, text: str, confidence: Confidence = "likely") -> Event:
    return Event(kind, how, span_of(node), confidence, None, None, {"expr": text, "value": f"`{text}`"})
