"""Which lines of the user's code ran, and from where each line that stores something was reached."""

from __future__ import annotations

import ast
import functools
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from graphsafe.capture.frames import absolute, is_user_file, user_frames
from graphsafe.report.model import CallSite

_MUTATORS = frozenset(
    "append extend insert add update setdefault appendleft pop popleft popitem remove discard clear rotate".split()
)


@dataclass
class Executed:
    """`lines`: file -> the lines that ran. `stores`: (file, line) of a store -> the user's frames that reached it."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    stores: dict[tuple[str, int], tuple[CallSite, ...]] = field(default_factory=dict)
    callers: dict[CodeType, tuple[CallSite, ...]] = field(default_factory=dict)
    "A function that ran -> the user's frames that called it first."

    def caller_of(self, function: Any) -> tuple[CallSite, ...]:
        """Of a plain Python function; empty where it did not run."""
        return self.callers.get(function.__code__, ()) if isinstance(function, FunctionType) else ()

    def writer_of(self, path: str) -> tuple[CallSite, ...]:
        """The frames of the last line that ran and stores under the name that a state's path ends in; empty if none."""
        name = path.split("[")[0].rpartition(".")[2] or path
        for wanted in (f".{name}", name):
            for (file, line), frames in reversed(self.stores.items()):
                if wanted in stores_of(file).get(line, ()):
                    return frames
        return ()


@contextmanager
def lines_traced(ran: Executed) -> Iterator[None]:
    """Record every line of the user's code that this thread runs."""

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            file, line = absolute(frame.f_code.co_filename), frame.f_lineno
            ran.lines.setdefault(file, set()).add(line)
            if (file, line) not in ran.stores and line in stores_of(file):
                ran.stores[file, line] = user_frames(frame)[0]
        return local

    def calls(frame: FrameType, event: str, argument: Any) -> Any:
        if not is_user_file(frame.f_code.co_filename):
            return None
        if frame.f_code not in ran.callers:
            ran.callers[frame.f_code] = user_frames(frame.f_back)[0] if frame.f_back is not None else ()
        return local

    before = sys.gettrace()
    sys.settrace(calls)
    threading.settrace(calls)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)


@functools.cache
def stores_of(file: str) -> Mapping[int, frozenset[str]]:
    """Line -> the names that statements beginning on it store or grow: `.name` for an attribute or its elements, `name`
    for a variable that outlives the call (declared global or nonlocal, or an element of any)."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, set[str]] = {}
    nodes = list(ast.walk(tree))
    outer = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    for node in nodes:
        for target in _targets(node):
            name = _name(target)
            # A call that changes its argument may change what a closure or a module holds; an assignment cannot.
            reaches_out = isinstance(node, ast.Call) or not isinstance(target, ast.Name)
            if name is not None and (name in outer or reaches_out):
                found.setdefault(node.lineno, set()).add(name)  # type: ignore[attr-defined]
    return {line: frozenset(names) for line, names in found.items()}


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return [part for target in node.targets for part in _parts(target)]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
        return [node.func.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next" and node.args:
        return [node.args[0]]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "setattr"
        and len(node.args) > 1
    ):
        return [node.args[1]]
    return []


def _parts(target: ast.expr) -> list[ast.expr]:
    return (
        [part for element in target.elts for part in _parts(element)]
        if isinstance(target, (ast.Tuple, ast.List))
        else [target]
    )


def _is_data(target: ast.expr) -> bool:
    """`tensor.data = new` gives the tensor other memory: what is stored to is the tensor."""
    return isinstance(target, ast.Attribute) and target.attr == "data" and isinstance(target.value, ast.Attribute)


def _name(target: ast.expr) -> str | None:
    while isinstance(target, (ast.Subscript, ast.Starred)) or _is_data(target):
        target = target.value  # type: ignore[attr-defined]
    if isinstance(target, ast.Attribute):
        return f".{target.attr}"
    if isinstance(target, ast.Constant):
        return f".{target.value!s}" if isinstance(target.value, str) else None
    return target.id if isinstance(target, ast.Name) else None
