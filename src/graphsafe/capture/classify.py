"""Which rule an event of a step falls under: by what ran, by the torch call around it, and by its expression.

Pure functions over events and the user's source; the parent uses them on what the children saw.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphsafe.optable import OpTable

Event = Mapping[str, Any]
Span = tuple[int, int, int, int]

_FORMATS = ("__format__", "__repr__", "__str__")
_EXTENT_CALLS = frozenset({"range", "islice"})


def code_of(event: Event, ops: OpTable) -> str | None:
    """The rule's code; None where the event breaks none (a registered draw)."""
    kind, data = event["kind"], event.get("data") or {}
    via = event.get("via") or ""
    method = via.rpartition(".")[2] if via.startswith("torch.Tensor.") else ""
    if method in _FORMATS:
        return "GS104"
    if kind in ("wait", "query"):
        return "GS105"
    if kind == "read":
        return _read(event, via, method, ops)
    if kind == "extent":
        if data.get("mask") or method in ("__getitem__", "__setitem__"):
            return "GS203" if method == "__getitem__" and _in_slice(event) else "GS202"
        return _tabled(event, ops, ("dynamic-shape",)) or "GS201"
    if kind == "copy-to-host":
        return "GS101" if method in ("item", "tolist") else "GS103"
    if kind == "copy-to-device":
        return _to_device(event, via, method, ops)
    if kind == "allocation":
        return "GS403" if data.get("pinned") else "GS401"
    if kind == "random":
        return {"reseed": "GS503", "state": "GS503", "private-generator": "GS502", "host-random": "GS504"}.get(
            data.get("how", "")
        )
    return _tabled(event, ops, ("hidden-sync", "waits", "dynamic-shape", "reads-host", "branches")) or "GS106"


def _read(event: Event, via: str, method: str, ops: OpTable) -> str:
    node = node_at(event)
    if method in ("__bool__", "__contains__"):
        casts = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool"
        return "GS101" if casts else "GS102"
    if method in ("__index__", "__getitem__"):
        if _in_slice(event):
            return "GS203"
        return "GS101" if method == "__getitem__" or node is None or isinstance(node, ast.Subscript) else "GS203"
    if method in ("item", "tolist", "__int__", "__float__", "__complex__"):
        return "GS203" if isinstance(node, ast.Call) and _called(node) in _EXTENT_CALLS else "GS101"
    if method in ("numpy", "__array__", "cpu"):
        return "GS103"
    return _tabled(event, ops, ("dynamic-shape", "hidden-sync", "reads-host", "branches")) or "GS101"


def _to_device(event: Event, via: str, method: str, ops: OpTable) -> str:
    data = event.get("data") or {}
    if method == "__getitem__" or data.get("index"):
        return "GS302"
    if method == "__setitem__":
        return "GS303"
    if data.get("literal"):
        return "GS301"
    found = _tabled(event, ops, ("copies",))
    return found if found in ("GS301", "GS302", "GS303") else "GS304"


def _tabled(event: Event, ops: OpTable, kinds: tuple[str, ...]) -> str | None:
    """What the op table says of the torch call, else of the aten op."""
    entries = (ops.python(event.get("via") or ""), ops.aten(event["op"]), ops.python(event["op"]))
    for kind in kinds:
        for entry in entries:
            for effect in entry.effects if entry is not None else ():
                if effect.kind == kind and effect.rule is not None:
                    return effect.rule
    return None


def _in_slice(event: Event) -> bool:
    node = node_at(event)
    if isinstance(node, ast.Slice):
        return True
    return isinstance(node, ast.Subscript) and any(isinstance(part, ast.Slice) for part in ast.walk(node.slice))


def _called(node: ast.Call) -> str:
    return (
        node.func.id
        if isinstance(node.func, ast.Name)
        else node.func.attr
        if isinstance(node.func, ast.Attribute)
        else ""
    )


def node_at(event: Event) -> ast.AST | None:
    """The expression that the event ran for; before Python 3.11 only where its line has a single candidate."""
    if not event["frames"]:
        return None
    frame = event["frames"][-1]
    nodes = nodes_of(frame["path"])
    span = event.get("span")
    if span is not None:
        return nodes.get(tuple(span))
    candidates = [node for place, node in nodes.items() if place[0] == frame["line"]]
    wanted = [node for node in candidates if isinstance(node, (ast.Subscript, ast.Call))]
    return wanted[0] if len(wanted) == 1 else None


@functools.lru_cache(maxsize=256)
def _tree(path: str) -> tuple[ast.AST, ...]:
    """Every node of a file, outermost first; none where it cannot be read."""
    try:
        return tuple(ast.walk(ast.parse(Path(path).read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return ()


@functools.lru_cache(maxsize=256)
def nodes_of(path: str) -> Mapping[tuple[int, ...], ast.AST]:
    """Span -> the outermost expression that has it; empty where the file cannot be read."""
    found: dict[tuple[int, ...], ast.AST] = {}
    for node in _tree(path):
        if isinstance(node, (ast.expr, ast.stmt)) and node.end_lineno is not None and node.end_col_offset is not None:
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            if place not in found or isinstance(found[place], ast.stmt):
                found[place] = node
    return found


def functions_of(path: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in _tree(path) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def statement_span(path: str, line: int) -> Span | None:
    """The smallest statement that begins on or spans a line."""
    best: Span | None = None
    for place, node in nodes_of(path).items():
        first, column, last, end = place
        if isinstance(node, (ast.expr, ast.stmt)) and first <= line <= last and (best is None or first > best[0]):
            best = (first, column, last, end)
    return best
