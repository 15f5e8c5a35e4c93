"""Finds work on a separate stream that is not ordered relative to a graph's replays: copies into the graph's inputs,
and reads of its tensors.

The copying stream must wait for the last replay, which may still read the old values. The replaying stream must wait
for the copy. A stream that reads a result must wait for the replay. Streams and events are identified by name: a local
name within its function, an attribute of `self` within its class, and any other attribute by its last part.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    arguments_of,
    called_name,
    captures_in,
    is_plain_replay,
    own,
    own_nodes,
    parents_in,
    place,
    stored_names,
    viewed,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, bindings
from graphsafe.scan.hazards.streams.side_block import RECORDS, WAITS
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import dotted, elements

HOST_WAITS = frozenset(("synchronize", "query", "elapsed_time"))
_TRANSFERS = frozenset(
    "copy_ fill_ zero_ to cuda pin_memory record_stream current_stream stream zip enumerate range len".split()
)
"The calls that a block may contain if it only copies. A block with any other call does more than copy."
_WALKS = frozenset("parameters named_parameters buffers named_buffers state_dict items values".split())
"Methods whose results are the tensors of an object, without a copy."
_READS = frozenset("clone cpu to float half sum mean argmax item tolist".split())
"Methods that read a tensor's values on the current stream."
_BINDING = (ast.Assign, ast.For, ast.comprehension)
"Nodes that bind a value, or its elements, to other names."
Name = tuple[str, str]
"The owner of a name (a function, a class, or an empty string) and the name."


@dataclass(slots=True)
class _Order:
    """The streams and events of a file: those that wait, and those for which other code waits."""

    waiting: set[Name] = field(default_factory=set)
    "Streams that wait for other streams or events."
    awaited: set[Name] = field(default_factory=set)
    "Streams and events that other streams or the host wait for."
    recorded: dict[Name, set[Name]] = field(default_factory=dict)
    "Stream -> the events that are recorded on it."
    handed: set[Name] = field(default_factory=set)
    "Streams and events that are passed to other code or stored under another name. Other code may wait for them."
    replaying: set[Name] = field(default_factory=set)
    "Streams on which the code replays."
    busy: set[Name] = field(default_factory=set)
    "Streams on which the code does more than copy."
    stops: bool = False
    "Whether the host waits for the whole device."

    def is_followed(self, stream: Name) -> bool:
        """Return whether any code may wait for the work of a stream."""
        known = {stream, *self.recorded.get(stream, ())}
        return self.stops or stream in self.busy or any(_among(one, self.awaited | self.handed) for one in known)


def lines(found: Tables) -> Iterator[Line]:
    """Yield copies on a side stream into memory that the function did not make, or that its graph reads."""
    order = _order_of(found)
    replays = any(map(is_plain_replay, inside(found.tree, ast.Call)))
    made = {
        (dotted(target) or "").rpartition(".")[2]
        for node in inside(found.tree, ast.Assign)
        if isinstance(node.value, ast.Call) and called_name(node.value) == "Stream"
        for target in node.targets
    }
    for name, function, owners in found.functions:
        for _, block in own_nodes(function):
            stream = _entered(block, name, function)
            if stream is None:
                continue
            if stream[1] in made:
                for call in _taken(block, function, owners):
                    yield Line(name, "taken-early", call, ast.unparse(call))
            captured = {name for graph in captures_in(function) for part in graph.body for name in _roots(part)}
            copies = _copies(block, _made_in(function) - captured)
            if not order.stops and not _among(stream, order.waiting | order.handed):
                yield from (Line(name, "given-early", call, ast.unparse(call)) for call in _given(block, function))
            streams = _meant(stream, function, found)
            if streams and not any(_among(one, order.waiting) for one in streams):
                tables = [table for table in owners if table.is_replayed and name not in table.preparing]
                is_ordered = order.stops or any(_among(one, order.handed | order.replaying) for one in streams)
                of_graph = set().union(*(table.inputs | table.overwritten for table in tables if not is_ordered))
                read = dict(_read_aside(block, of_graph))
                yield from (Line(name, "read-aside", node, text) for node, text in read.items())
                filling = [call for call in copies if read.keys().isdisjoint(call.args)]
                yield from (Line(name, "refilled", call, ast.unparse(call.func)) for call in filling)
            elif replays and streams and not any(map(order.is_followed, streams)):
                yield from (Line(name, "read-early", call, ast.unparse(call.func)) for call in copies)


def _among(name: Name, names: set[Name]) -> bool:
    """Return whether a name may refer to the same object as one of several names. Equal names also count as the same if
    the owner of one of them is unknown."""
    return name in names or any(other[1] == name[1] and "" in (other[0], name[0]) for other in names)


def _order_of(found: Tables) -> _Order:
    order = _Order()
    for name, function, _ in found.functions:
        around: dict[ast.AST, Name | None] = {function: None}
        parents: dict[ast.AST, ast.AST] = {}
        for parent, node in own_nodes(function):
            parents[node] = parent
            stream = _entered(node, name, function)
            around[node] = stream if stream is not None else around[parent]
            if isinstance(node, ast.Call):
                _note_call(order, node, name, function, around[node])
            elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                _note_use(order, node, parents, name, function)
    return order


def _note_call(order: _Order, call: ast.Call, name: str, function: Function, block: Name | None) -> None:
    method = called_name(call)
    receiver = _named(call.func.value, name, function) if isinstance(call.func, ast.Attribute) else None
    given = [one for value in call.args if (one := _named(value, name, function)) is not None]
    if block is not None and method in WAITS and (receiver is None or not call.args):
        order.waiting.add(block)  # `torch.cuda.current_stream().wait_event(event)`, or `event.wait()`
    if block is not None and is_plain_replay(call):
        order.replaying.add(block)
    if method == "synchronize" and (dotted(call.func) or "").endswith(("cuda.synchronize", "accelerator.synchronize")):
        order.stops = True
    elif method in HOST_WAITS or method == "wait":
        # `event.wait(stream)` makes the stream wait for the event.
        order.awaited.update([receiver] if receiver is not None else ())
        order.waiting.update(given)
    elif method in WAITS:
        order.waiting.update([receiver] if receiver is not None else ())
        order.awaited.update(given)
    elif method in RECORDS and receiver is not None:
        # `event.record(stream)`, or `stream.record_event(event)`.
        pairs = [(receiver, one) for one in given] if method == "record_event" else [(one, receiver) for one in given]
        for stream, event in pairs or ([(block, receiver)] if block is not None else []):
            order.recorded.setdefault(stream, set()).add(event)
        if method == "record_event" and not given:
            order.handed.add(receiver)  # the event is returned
    elif block is not None and method not in _TRANSFERS:
        order.busy.add(block)


def _note_use(
    order: _Order, node: ast.Name | ast.Attribute, parents: dict[ast.AST, ast.AST], name: str, function: Function
) -> None:
    """Record a stream or event that other code may use, because it is passed to a call of unknown effect, returned, or
    bound to another name by an assignment or a loop."""
    parent = parents.get(node)
    while isinstance(parent, ast.Subscript):
        parent = parents.get(parent)
    method = called_name(parent) if isinstance(parent, ast.Call) else ""
    known = isinstance(parent, ast.Attribute) or method in WAITS | RECORDS | _TRANSFERS
    if not known and isinstance(parent, (*_BINDING, ast.Call, ast.Return, ast.keyword, ast.Tuple, ast.List)):
        one = _named(node, name, function)
        if one is not None:
            order.handed.add(one)


def _named(node: ast.expr, name: str, function: Function) -> Name | None:
    """Return the owner and the name of a stream or event, or None for an expression that is not a name."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return name, node.id
    if not isinstance(node, ast.Attribute):
        return None
    is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
    return (name.rpartition(".")[0] if is_own else "", node.attr)


def _entered(block: ast.AST, name: str, function: Function) -> Name | None:
    """Return the stream that `with torch.cuda.stream(…)` enters, or None for any other node."""
    for item in block.items if isinstance(block, (ast.With, ast.AsyncWith)) else ():
        call = item.context_expr
        if isinstance(call, ast.Call) and call.args and (dotted(call.func) or "").endswith("cuda.stream"):
            return _named(call.args[0], name, function)
    return None


def _meant(stream: Name, function: Function, found: Tables) -> Sequence[Name]:
    """Return the names of a stream. A stream that is a parameter may be any argument of the function's calls in the
    file. Without such a call, nothing is known of the stream, and it has no name."""
    if stream[1] not in {one.arg for one in parameters(function)}:
        return [stream]
    given = [
        _named(argument, name, caller)
        for name, caller, _ in found.functions
        for call in own(caller, ast.Call)
        if called_name(call) == function.name
        for argument in arguments_of(call)
    ]
    return [stream, *(one for one in given if one is not None)] if given else []


def _given(block: ast.AST, function: Function) -> Iterator[ast.Call]:
    """Yield the calls of `copy_` whose source is a parameter of the function, if their block also replays. Only streams
    that are local to the function are considered. A caller cannot know such a stream, so the caller computes the values
    on another stream."""
    given = {one.arg for one in parameters(function)} - {"self"}
    calls = [*inside(block, ast.Call)]
    entered = block.items if isinstance(block, ast.With) else []
    if not any(map(is_plain_replay, calls)) or any(_roots(item.context_expr) & given for item in entered):
        return
    for call in calls:
        if called_name(call) == "copy_" and call.args and place(call.args[0]) in given:
            yield call


def _read_aside(block: ast.AST, tensors: Set[str]) -> Iterator[tuple[ast.expr, str]]:
    """Yield the places at which a block reads one of these tensors, each with the name of the tensor. The target of a
    copy is not read."""
    filled = {
        id(call.func.value)
        for call in inside(block, ast.Call)
        if isinstance(call.func, ast.Attribute) and called_name(call) == "copy_"
    }
    for call in inside(block, ast.Call):
        operands = [*arguments_of(call), *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
        for operand in operands:
            text = viewed(operand)
            if text is not None and text in tensors and id(operand) not in filled:
                yield operand, text


def _taken(block: ast.AST, function: Function, owners: Sequence[GraphTensors]) -> Iterator[ast.Call]:
    """Yield the first call after a block that replays, if this call reads an output. Any other call may order the
    streams."""
    body = getattr(parents_in(function)[block], "body", ())
    calls = [*inside(block, ast.Call)]
    replay = next(filter(is_plain_replay, calls), None)
    if replay is None or block not in body:
        return
    later = [statement for statement in body[body.index(block) + 1 :] if inside(statement, ast.Call)]
    first = inside(later[0], ast.Call)[-1] if later else replay
    outputs = set().union(*(table.overwritten for table in owners if len(table.blocks) == 1))
    if (
        all(called_name(call) in RECORDS for call in calls if call.lineno > replay.lineno)
        and isinstance(first.func, ast.Attribute)
        and first.func.attr in _READS
        and viewed(first.func.value) in outputs
    ):
        yield first


def _roots(node: ast.AST) -> set[str]:
    return {one.id for one in inside(node, ast.Name)}


def _made_in(function: Function) -> set[str]:
    """Return the local names, except those that only ever name parts of existing objects: `layer = self.layers[i]`."""
    parts = {name for _, node in own_nodes(function) for name in _parts_named(node)}
    return stored_names(name for name in own(function, ast.Name) if id(name) not in parts)


def _parts_named(node: ast.AST) -> Iterator[int]:
    """Yield the ids of the names that an assignment or a loop binds to parts of existing objects."""
    pairs = [*bindings(node)] if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.For):
        pairs = [(part, node.iter) for part in elements(node.target)]
        if isinstance(node.iter, ast.Call) and dotted(node.iter.func) == "zip":
            pairs = [*zip(elements(node.target), node.iter.args, strict=False)]
    yield from (id(target) for target, value in pairs if (dotted(_whole(value)) or "").startswith("self."))


def _whole(value: ast.expr) -> ast.expr:
    """Return the object from which an expression takes parts: `self.net` for `dict(self.net.named_parameters())`."""
    while isinstance(value, (ast.Call, ast.Subscript)):
        if isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value.func, ast.Attribute) and value.func.attr in _WALKS:
            value = value.func.value
        elif dotted(value.func) == "dict" and value.args:
            value = value.args[0]
        else:
            break
    return value


def _copies(block: ast.AST, made: set[str]) -> Iterator[ast.Call]:
    """Yield the calls of `x.copy_(…, non_blocking=True)`, unless `x` or its owner is one of the local names `made`."""
    for call in inside(block, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "copy_":
            base = call.func.value
            target = place(base.value if isinstance(base, ast.Subscript) and place(base) is None else base)
            is_async = any(word.arg == "non_blocking" for word in call.keywords)
            if is_async and target is not None and target.partition(".")[0] not in made:
                yield call


def waits_for_earlier_call(function: Function, wait: str, line: int) -> bool:
    """Return whether a line of a function, such as `self.copied.synchronize()`, waits for an event that only an earlier
    call has recorded. Before it refills a pinned buffer, the host has to wait in this way for the last copy from it."""
    event, _, method = wait.partition(".synchronize(")
    records = [call for call in own(function, ast.Call) if ast.unparse(call.func) == f"{event}.record"]
    return bool(method and records) and all(call.lineno > line for call in records)
