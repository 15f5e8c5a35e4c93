"""Waits for a side stream in other functions than the one that works on it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import Function, called_name, captures_in, own_names
from graphsafe.scan.hazards.one_object import functions_of, may_be_one_object, may_hold_object
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import parameters

WAITS = frozenset(("wait_stream", "wait_event", "wait"))
RECORDS = frozenset(("record", "record_event"))
_ATTRIBUTE = re.compile(r"self\.(\w+)(\[.*\])?$")
_TAKES = WAITS | RECORDS | {"stream", "record_stream"}
"Calls that take a stream and do not keep it."
_LOOKS = ast.Attribute, ast.withitem, ast.Compare, ast.BoolOp, ast.If, ast.For
"Syntax around a stream that does not pass it on."


def waits_elsewhere(frame: Frame, function: Function, stream: str) -> bool:
    """Return whether another function of the file waits for the stream. The missing wait may be there.

    A wait next to a capture, as after a warm-up, does not count: it does not join streams that the captured step forks.
    A wait of an unrelated class for its own stream with the same name does not count either.
    """
    lines = frame.project.files.source(frame.path).lines
    waiting = {number for number, line in enumerate(lines, 1) if "wait_" in line}
    if not waiting:
        return False
    near = _span(function) | frame.engine.queries.ask(
        ("beside-captures", frame.path), lambda: _beside_captures(frame), frozenset
    )
    named = {number for number in waiting - near if re.search(_word(stream), lines[number - 1])}
    for _, other in functions_of(frame):
        for alias in _aliases(other, stream):
            named |= {number for number in _span(other) & waiting - near if re.search(_word(alias), lines[number - 1])}
    attribute = _ATTRIBUTE.match(stream)
    if attribute is not None:
        # Code that holds the object may wait for its stream: `main.wait_stream(layer.side)`.
        held = re.compile(rf"(?<!\bself)\.{attribute[1]}(?!\w)")
        if any(held.search(lines[number - 1]) for number in waiting - near):
            return True
    if not named or _is_shared(frame, function, stream):
        return bool(named)
    return attribute is not None and any(may_hold_object(frame, number) for number in named)


def _word(name: str) -> str:
    return rf"(?<![\w.]){re.escape(name)}(?!\w)"


def _aliases(function: Function, stream: str) -> Iterator[str]:
    """Yield the local names for a stream: `side = self.side`."""
    for node in inside(function, ast.Assign):
        if ast.unparse(node.value) == stream:
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _beside_captures(frame: Frame) -> frozenset[int]:
    """Return the lines of capturing functions outside their captured blocks."""
    found: set[int] = set()
    for _, function in functions_of(frame):
        blocks = captures_in(function)
        if blocks:
            found |= _span(function)
            found -= set().union(*map(_span, blocks))
    return frozenset(found)


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


# streams of other classes


def _is_shared(frame: Frame, function: Function, stream: str) -> bool:
    """Return whether code outside the object, or outside the function of a local name, may have the stream, because the
    stream is not made here or is passed on."""
    attribute = _ATTRIBUTE.match(stream)
    if attribute is not None and frame.owner is not None:
        functions, name = [*_methods(frame)], f"self.{attribute[1]}"
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


def _methods(frame: Frame) -> Iterator[Function]:
    """Yield the functions of the file whose `self` may be the object whose method is being read."""
    for facts, node in functions_of(frame):
        if facts.owner is not None and may_be_one_object(frame, f"{frame.path}::{facts.owner}"):
            yield node


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
