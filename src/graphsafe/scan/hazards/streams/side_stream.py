"""Side streams, as in `with torch.cuda.stream(side):`. Tells whether they are forked from the step's stream, and
whether they are joined to it later."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.values import NONE, RuntimeObject, Value, as_tensor, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards import graph_attributes
from graphsafe.scan.hazards.graph_syntax import (
    Function,
    called_name,
    captures_in,
    is_plain_replay,
    own_names,
    place,
    written,
)
from graphsafe.scan.hazards.owners import functions_of, may_be_one_object, may_hold_object
from graphsafe.scan.hazards.streams.side_block import ATTRIBUTE, RECORDS, WAITS, SideBlock
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import dotted

_TAKES = WAITS | RECORDS | {"stream", "record_stream"}
"Calls that take a stream as an argument but do not store it."
_STREAMS = frozenset(("current_stream", "default_stream", "CUstream"))
_LOOKS = ast.Attribute, ast.withitem, ast.Compare, ast.BoolOp, ast.If, ast.For
"Syntax that may contain a stream without passing it on."


def entered(frame: Frame, node: ast.With | ast.AsyncWith, expression: ast.expr) -> None:
    """Emit the events of a `with` statement that sets a stream."""
    if not isinstance(expression, ast.Call) or not expression.args:
        return
    argument = expression.args[0]
    # A stream is often made only if CUDA is available, so the expression may have several values. A stream without
    # detail comes from an annotation. It is ignored, because the line that makes the stream shows more.
    streams = options(frame.evaluate_quietly(argument))
    known = [one for one in streams if not (type(one) is RuntimeObject and one.kind == "stream" and one.detail is None)]
    stream = known[0] if len(known) == 1 else next(iter(streams), NONE)
    if type(stream) is not RuntimeObject or stream.kind != "stream":
        return
    if stream.detail == "default":
        frame.emit("StreamOp", "foreign-stream", expression)
    elif inside(node, ast.Yield):
        # The function is a context manager, and the code that uses it in a `with` statement may join the stream.
        return
    elif stream.detail == "side" and frame.node is not None:
        for call in _filled_before(frame, frame.node, node):
            frame.emit("AttrWrite", "read-early", call)
        side = SideBlock(frame.node, node, argument, frame.project.files.source(frame.path).lines)
        for wait in side.waits_for_itself():
            frame.emit("StreamOp", "waits-for-itself", wait)
        if side.is_forked() and side.is_joined():
            for early in side.read_before_join():
                frame.emit("StreamOp", "read-before-join", early)
            for made, call, name in side.made_after_fork():
                tensor, certain = as_tensor(frame.env.get(name, NONE))
                op = frame.ops.method(called_name(call))
                is_view = op is not None and op.view  # a view starts no work
                if tensor is not None and certain and tensor.fresh and tensor.where != "host" and not is_view:
                    frame.emit("StreamOp", "made-late", made)
        else:
            # Another file may wait for an event that is an attribute of the object.
            is_shared = any("." in event for event in side.unheard()) or _waits_elsewhere(
                frame, frame.node, side.stream
            )
            confidence: Confidence = "possible" if is_shared else "likely"
            frame.emit("StreamOp", "unjoined", expression, confidence)


def _filled_before(frame: Frame, function: Function, block: ast.With | ast.AsyncWith) -> Iterator[ast.Call]:
    """Yield the copies on the current stream that fill inputs of a graph. They come directly before a block that
    replays this graph on another stream, and no line in between makes a stream wait. Copies that the host waits for are
    left out."""
    calls = [*inside(block, ast.Call)]
    replay = next(filter(is_plain_replay, calls), None)
    if replay is None or frame.owner is None or block not in function.body:
        return
    if any(called_name(call) in WAITS and call.lineno < replay.lineno for call in calls):
        return
    inputs = graph_attributes.of_class(frame, frame.owner).inputs
    for statement in reversed(function.body[: function.body.index(block)]):
        call = statement.value if isinstance(statement, ast.Expr) else None
        target = written(call) if isinstance(call, ast.Call) and called_name(call) == "copy_" and call.args else None
        base = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(call, ast.Call) or base is None or any(one is not call for one in inside(call, ast.Call)):
            return  # this statement may order the streams
        source, certain = as_tensor(frame.evaluate_quietly(call.args[0]))
        is_async = any(word.arg == "non_blocking" for word in call.keywords)
        # The tensors in the arguments of a root are only assumed to be on the device.
        is_known = source is not None and certain and (source.fresh or source.attr is not None)
        if not is_async and (source is None or not is_known or source.where != "device" or source.maybe_host):
            return  # the host may wait for this copy
        if (place(base) or "").removeprefix("self.") in inputs:
            yield call


def waited(frame: Frame, node: ast.Call, stream: RuntimeObject, given: Iterable[Value]) -> None:
    """Emit an event for `stream.wait_stream(given)` or `set_stream(stream)` with the default stream. During a capture,
    CUDA refuses to order work relative to the default stream."""
    if any(
        type(value) is RuntimeObject and value.kind == "stream" and value.detail == "default"
        for value in (stream, *given)
    ):
        frame.emit("StreamOp", "foreign-stream", node)


def defaulted(frame: Frame, default: ast.expr | None) -> None:
    """Emit an event for a parameter whose default is a stream: `stream=torch.cuda.current_stream()`. Python makes the
    default when the module is imported, so this is not the stream of the capture."""
    name = (dotted(default.func) or "") if frame.hot and isinstance(default, ast.Call) else ""
    if default is not None and name.rpartition(".")[2] in _STREAMS:
        frame.emit("StreamOp", "foreign-stream", default)


# waits in other functions


def _waits_elsewhere(frame: Frame, function: Function, stream: str) -> bool:
    """Return whether another function of the file waits for the stream. This may be the wait that seems to be missing.

    A wait next to a capture, as after a warm-up, is ignored, because it does not join streams that the captured step
    forks. A wait of an unrelated class for its own stream with the same name is ignored too.
    """
    lines = frame.project.files.source(frame.path).lines
    waiting = {number for number, line in enumerate(lines, 1) if "wait_" in line}
    if not waiting:
        return False
    near = _span(function) | frame.engine.queries.ask(
        ("beside-captures", frame.path), lambda: _beside_captures(frame), frozenset
    )
    named = {number for number in waiting - near if re.search(_word(stream), lines[number - 1])}
    for _, other in functions_of(frame, frame.path):
        for alias in _aliases(other, stream):
            named |= {number for number in _span(other) & waiting - near if re.search(_word(alias), lines[number - 1])}
    attribute = ATTRIBUTE.match(stream)
    if attribute is not None:
        # Code that uses the object may wait for its stream: `main.wait_stream(layer.side)`.
        held = re.compile(rf"(?<!\bself)\.{attribute[1]}(?!\w)")
        if any(held.search(lines[number - 1]) for number in waiting - near):
            return True
    owner = _binds(frame, function, stream)
    if not named or _is_shared(frame, owner, stream):
        return bool(named)
    if attribute is None:
        # Only functions nested in the function that binds the name use the same stream.
        return not named.isdisjoint(_span(owner))
    return any(may_hold_object(frame, number) for number in named)


def _binds(frame: Frame, function: Function, name: str) -> Function:
    """Return the function to which the local name `name` belongs: `function` itself, or a function around it."""
    around = [node for _, node in functions_of(frame, frame.path) if function.lineno in _span(node)]
    nested = [inner for node in around for inner in inside(node, ast.FunctionDef) if function.lineno in _span(inner)]
    binding = [node for node in (function, *reversed(nested), *around) if name in own_names(node)]
    return binding[0] if binding else function


def _word(name: str) -> str:
    return rf"(?<![\w.]){re.escape(name)}(?!\w)"


def _aliases(function: Function, stream: str) -> Iterator[str]:
    """Yield the local names for a stream: `side = self.side`."""
    for node in inside(function, ast.Assign):
        if isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript)) and ast.unparse(node.value) == stream:
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _beside_captures(frame: Frame) -> frozenset[int]:
    """Return the lines of capturing functions outside their captured blocks."""
    found: set[int] = set()
    for _, function in functions_of(frame, frame.path):
        blocks = captures_in(function)
        if blocks:
            found |= _span(function)
            found -= set().union(*map(_span, blocks))
    return frozenset(found)


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _is_shared(frame: Frame, function: Function, stream: str) -> bool:
    """Return whether other code may use the stream, because the stream is not made here or is passed on. Other code is
    code outside the object or, for a local name, outside the function."""
    attribute = ATTRIBUTE.match(stream)
    if attribute is not None and frame.owner is not None:
        # the functions of the file whose `self` may be the object whose method is being read
        known = [
            (f"{frame.path}::{facts.owner}", node) for facts, node in functions_of(frame, frame.path) if facts.owner
        ]
        functions = [node for owner, node in known if may_be_one_object(frame, owner)]
        name = f"self.{attribute[1]}"
    elif stream in own_names(function) - {one.arg for one in parameters(function)}:
        functions, name = [function], stream
    else:
        return True
    made = False
    for node in functions:
        parents = {child: parent for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)}
        names = {name, *_aliases(node, name)}
        for use in [one for one in parents if isinstance(one, (ast.Name, ast.Attribute)) and ast.unparse(one) in names]:
            parent = parents[use]
            while isinstance(parent, ast.Subscript):
                parent = parents[parent]
            if isinstance(parent, ast.Assign) and use in parent.targets:
                made = made or ast.unparse(use) == name
                if not _makes_streams(parent.value) and ast.unparse(parent.value) != name:
                    return True
            elif isinstance(parent, ast.Call):
                if called_name(parent) not in _TAKES:
                    return True
            elif not isinstance(parent, _LOOKS) and not (isinstance(parent, ast.Assign) and parent.value is use):
                return True
    return not made


def _makes_streams(value: ast.expr) -> bool:
    """Return whether a value is a new stream, a list of new streams, or None: `torch.cuda.Stream()`,
    `[Stream(d) for d in devices]`, `Stream() if cuda else None`."""
    if isinstance(value, ast.IfExp):
        return _makes_streams(value.body) and _makes_streams(value.orelse)
    if isinstance(value, (ast.List, ast.Tuple)):
        return all(map(_makes_streams, value.elts))
    if isinstance(value, ast.ListComp):
        return _makes_streams(value.elt)
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Call) and called_name(value).endswith("Stream"))
