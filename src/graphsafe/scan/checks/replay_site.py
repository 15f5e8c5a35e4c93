"""Functions that replay a graph: how they fill its inputs, use its outputs, and wait between replays.

Read from the syntax alone: a replay is seldom hot code itself, and what matters is which names the captured block
read and wrote.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.events import Event, EventKind, span_of
from graphsafe.scan.symbols.index import dotted

Function = ast.FunctionDef | ast.AsyncFunctionDef
TIMING = re.compile(r"\b(perf_counter\w*|elapsed_time|monotonic|time\.time|do_bench|enable_timing|profiler)\b")
MEASURES = re.compile(r"bench|profil|warm|test", re.I)
KEEPS = frozenset(("append", "appendleft", "add", "put", "insert"))
WHOLE = frozenset(("copy_", "fill_", "zero_"))


@dataclass(slots=True)
class Captured:
    """The names that captured blocks read and bind, as the code writes them: `x`, `self.x`, `self.inputs['ids']`."""

    inputs: set[str] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)
    blocks: list[ast.With | ast.AsyncWith] = field(default_factory=list)


def events(tree: ast.Module, module: str) -> Iterator[tuple[str, Event]]:
    """The qualified function and the event of each line at fault."""
    yield from _of_scope(tree.body, "", {}, bool(MEASURES.search(module.rpartition(".")[2])))


def _of_scope(
    body: Iterable[ast.stmt], prefix: str, shared: dict[str, Captured], measures: bool
) -> Iterator[tuple[str, Event]]:
    for node in _definitions(body):
        if isinstance(node, ast.ClassDef):
            yield from _of_scope(node.body, f"{prefix}{node.name}.", {"self": _captured(node, own=True)}, measures)
        else:
            name = f"{prefix}{node.name}"
            site = _Site(node, [_captured(node, own=False), *shared.values()], measures or bool(MEASURES.search(name)))
            for event in site.events():
                yield name, event
            yield from _of_scope(node.body, f"{name}.", shared, measures)


def _definitions(body: Iterable[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    """Functions and classes that a body defines, conditional ones included, not those inside them."""
    stack = list(body)
    while stack:
        node = stack.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node
        else:
            stack = [*(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)), *stack]


def _captured(scope: Function | ast.ClassDef, own: bool) -> Captured:
    """What the captures in a function, or (`own`) in the methods of a class by way of `self`, read and bind."""
    found = Captured()
    for node in ast.walk(scope):
        if not isinstance(node, (ast.With, ast.AsyncWith)) or not any(map(is_capture, node.items)):
            continue
        found.blocks.append(node)
        for statement in node.body:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Call):
                    given = [*inner.args, *(keyword.value for keyword in inner.keywords)]
                    # `model(*self.inputs)`: a tuple of inputs is replaced as one.
                    given = [value.value if isinstance(value, ast.Starred) else value for value in given]
                    found.inputs.update(text for value in given if (text := place(value)))
                elif isinstance(inner, (ast.BinOp, ast.Assign)):
                    parts = [inner.left, inner.right] if isinstance(inner, ast.BinOp) else [inner.value]
                    found.inputs.update(text for value in parts if (text := place(value)))
                    for target in getattr(inner, "targets", ()):
                        elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                        found.outputs.update(text for element in elements if (text := place(element)))
    found.inputs -= found.outputs
    for names in (found.inputs, found.outputs):
        names.intersection_update([name for name in names if name.startswith("self.") is own])
    return found


def own_nodes(function: Function) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The nodes of a function, each after its parent, but for those of functions and classes inside it."""
    stack: list[ast.AST] = [function]
    while stack:
        node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                yield node, child
                stack.append(child)


def is_capture(item: ast.withitem) -> bool:
    call = item.context_expr
    name = (dotted(call.func) or "") if isinstance(call, ast.Call) else ""
    return name.endswith(("cuda.graph", "cuda.graphs.graph"))


def place(node: ast.expr) -> str | None:
    """The text of a name, an attribute of one, or an entry under a constant key; None for anything else."""
    if isinstance(node, ast.Subscript):
        base = place(node.value)
        return f"{base}[{node.slice.value!r}]" if base and isinstance(node.slice, ast.Constant) else None
    if isinstance(node, ast.Attribute):
        base = place(node.value)
        return f"{base}.{node.attr}" if base else None
    return node.id if isinstance(node, ast.Name) else None


class _Site:
    """One function, with what is captured by it or by the object that it belongs to."""

    def __init__(self, function: Function, captured: list[Captured], measures: bool) -> None:
        self._measures = measures or bool(TIMING.search(ast.unparse(function)))
        self._function = function
        self._inputs = set().union(*(known.inputs for known in captured))
        self._outputs = set().union(*(known.outputs for known in captured))
        self._captures = [block for known in captured for block in known.blocks]
        self._parents = {child: parent for parent, child in own_nodes(function)}
        self._own = [function, *self._parents]
        self._replays = [node for node in self._own if isinstance(node, ast.Call) and _is_replay(node)]

    def events(self) -> Iterator[Event]:
        if not self._replays:
            return
        for node in self._own:
            if isinstance(node, ast.Assign):
                yield from self._rebound(node)
            if isinstance(node, (ast.Assign, ast.Call)):
                yield from self._kept(node)
                yield from self._partly(node)
        yield from self._waits()

    def _rebound(self, node: ast.Assign) -> Iterator[Event]:
        for target in node.targets:
            text = place(target)
            if text is None or text not in self._inputs or _is_host(node.value) or _is_view_of(node.value, text):
                continue
            if self._before_replay(node):
                yield _event("AttrWrite", "input-rebound", node, text)

    def _kept(self, node: ast.Assign | ast.Call) -> Iterator[Event]:
        if isinstance(node, ast.Assign):
            holder: ast.expr | None = None
            if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
                holder = node.targets[0].value
                if isinstance(node.targets[0].slice, (ast.Slice, ast.Tuple)):
                    return
            held: list[ast.expr] = [node.value]
        else:
            function = node.func
            holder = function.value if isinstance(function, ast.Attribute) and function.attr in KEEPS else None
            held = list(node.args)
        if holder is None:
            return
        for value in held:
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
            text = next((text for part in parts if (text := place(part)) in self._outputs), None)
            if text is None or place(holder) in self._outputs | self._inputs:
                continue
            outlives = (place(holder) or "").startswith("self.")
            for replay in self._replays:
                together = self._shared_loop(node, replay)
                if (together or outlives) and replay.lineno < node.lineno and self._compatible(node, replay):
                    yield _event("AttrWrite", "output-kept", node, text)
                    return

    def _partly(self, node: ast.Assign | ast.Call) -> Iterator[Event]:
        target = _written(node)
        if not isinstance(target, ast.Subscript) or not _has_end(target.slice):
            return
        text = place(target.value)
        if text not in self._inputs or not self._before_replay(node) or self._rest_written(text):
            return
        yield _event("AttrWrite", "partial-refresh", node, text or "", "possible")

    def _rest_written(self, text: str) -> bool:
        """Another line writes the whole buffer, or what lies behind some start."""
        for node in self._own:
            if not isinstance(node, (ast.Assign, ast.Call)):
                continue
            target = _written(node)
            if isinstance(node, ast.Call) and target is not None and place(target) == text:
                return True
            if isinstance(target, ast.Subscript) and place(target.value) == text and not _has_end(target.slice):
                return True
        return False

    def _waits(self) -> Iterator[Event]:
        if self._measures:
            return
        for node in self._own:
            if not isinstance(node, ast.Call) or not (dotted(node.func) or "").endswith(
                ("cuda.synchronize", "accelerator.synchronize")
            ):
                continue
            compatible = [replay for replay in self._replays if self._compatible(node, replay)]
            before = any(replay.lineno < node.lineno for replay in compatible)
            after = any(replay.lineno > node.lineno for replay in compatible)
            if (before and after) or any(self._shared_loop(node, replay) for replay in compatible):
                yield _event("StreamOp", "wait-between-graphs", node, ast.unparse(node))

    # order

    def _before_replay(self, node: ast.Assign | ast.Call) -> bool:
        """A replay follows, and no capture comes in between."""
        for replay in self._replays:
            loop = self._shared_loop(node, replay)
            if not self._compatible(node, replay) or not (replay.lineno > node.lineno or loop is not None):
                continue
            if any(_holds(loop or self._function, block) and block.lineno > node.lineno for block in self._captures):
                continue
            return True
        return False

    def _shared_loop(self, a: ast.AST, b: ast.AST) -> ast.AST | None:
        loops = {
            ancestor for ancestor in self._ancestors(a) if isinstance(ancestor, (ast.For, ast.AsyncFor, ast.While))
        }
        return next((ancestor for ancestor in self._ancestors(b) if ancestor in loops), None)

    def _ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self._parents:
            node = self._parents[node]
            yield node

    def _compatible(self, node: ast.AST, replay: ast.AST) -> bool:
        """Whether one call can run both: they are not in two branches of an `if`, and no return stands between them."""
        inside = {replay, *self._ancestors(replay)}
        child = node
        for ancestor in self._ancestors(node):
            for block in ("body", "orelse", "handlers", "finalbody"):
                statements = getattr(ancestor, block, None)
                if not isinstance(statements, list) or child not in statements:
                    continue
                if ancestor in inside:
                    others = [other for other in ("body", "orelse") if other != block]
                    if isinstance(ancestor, ast.If) and any(
                        statement in inside for other in others for statement in getattr(ancestor, other)
                    ):
                        return False
                elif isinstance(statements[-1], (ast.Return, ast.Raise, ast.Continue)):
                    return False
            child = ancestor
        return True


def _is_replay(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "replay" and not node.args and not node.keywords


def _is_host(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return (dotted(node.func) or "") in ("int", "float", "len", "bool", "str", "max", "min", "dict", "list")
    return isinstance(node, (ast.Constant, ast.Compare, ast.BoolOp, ast.JoinedStr, ast.Dict, ast.Lambda))


def _is_view_of(node: ast.expr, text: str) -> bool:
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        if place(node) == text:
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return place(node) == text


def _written(node: ast.Assign | ast.Call) -> ast.expr | None:
    """What a line writes into: `buf[:n]` of `buf[:n] = x` and `buf[:n].copy_(x)`, `buf` of `buf.zero_()`."""
    if isinstance(node, ast.Assign):
        return node.targets[0] if len(node.targets) == 1 else None
    function = node.func
    return function.value if isinstance(function, ast.Attribute) and function.attr in WHOLE else None


def _has_end(index: ast.expr) -> bool:
    """A first dimension cut off at an end that is not the buffer's own: `[:n]`, `[:n, :]`."""
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    return isinstance(first, ast.Slice) and first.upper is not None and first.lower is None


def _holds(scope: ast.AST, block: ast.AST) -> bool:
    return any(inner is block for inner in ast.walk(scope))


def _event(kind: EventKind, how: str, node: ast.expr | ast.stmt, text: str, confidence: Confidence = "likely") -> Event:
    return Event(kind, how, span_of(node), confidence, None, None, {"expr": text, "value": f"`{text}`"})


__all__ = ["events"]
