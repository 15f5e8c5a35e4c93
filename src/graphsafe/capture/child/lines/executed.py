"""Records which lines of the user's code ran, and the call stack of each line that stores a value."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from graphsafe.capture.shared.frames import absolute, is_user_file, user_frames
from graphsafe.capture.shared.replaced import tracing
from graphsafe.report.model import CallSite

Trace = Callable[[FrameType, str, Any], Any]
"A trace function for `sys.settrace`."
_MUTATORS = frozenset(
    "append extend insert add update setdefault appendleft pop popleft popitem remove discard clear rotate put".split()
)
_OF_TENSORS = frozenset({"add", "put"})
"Methods that change a set or a queue and return None. Tensor methods with these names return a new tensor."
_NAMESPACES = frozenset({".__dict__", "vars()", "globals()"})


@dataclass(frozen=True, slots=True)
class Store:
    """The target of a store. `name` is `weight` for a variable, and `.weight` for an attribute or its elements. `key`
    is the key of an element in the form of a path (`['a']`), if the key is a constant."""

    name: str | None
    key: str | None = None


@dataclass
class Executed:
    """The lines that ran. `lines`: file -> its lines that ran. `stores`: (file, line) of a store -> the user's frames
    when the store first ran."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    stores: dict[tuple[str, int], tuple[CallSite, ...]] = field(default_factory=dict)
    callers: dict[CodeType, tuple[CallSite, ...]] = field(default_factory=dict)
    "Function that ran -> the user's frames of its first call."

    def caller_of(self, function: Any) -> tuple[CallSite, ...]:
        """Return the frames of the function's first call; none if the function did not run or is not a Python
        function."""
        return self.callers.get(function.__code__, ()) if isinstance(function, FunctionType) else ()

    def writer_of(self, path: str) -> tuple[CallSite, ...]:
        """Return the frames of the last line that ran and that stores to this path of state, or nothing.

        An element is looked up by its container and key first. If nothing is found, the element is looked up by its key
        alone. The result of this look-up is used only if a single line stores under that key.
        """
        held, key = _split(path)
        name = held.split("[")[0].rpartition(".")[2] or held
        for wanted in (f".{name}", name):
            for exact in (True, False):
                for place, frames in reversed(self.stores.items()):
                    if any(store.name == wanted and _may_be(key, store.key, exact) for store in _stored(place)):
                        return frames
        wanted_key = key or f"[{name!r}]"
        found = [
            frames
            for place, frames in self.stores.items()
            for store in _stored(place)
            if store.key == wanted_key and (key is not None or store.name in _NAMESPACES)
        ]
        return found[0] if len(found) == 1 else ()


def _stored(place: tuple[str, int]) -> frozenset[Store]:
    file, line = place
    return stores_of(file).get(line, frozenset())


def _split(path: str) -> tuple[str, str | None]:
    """Split a path before its last `[...]`: `a.b['c']` becomes `a.b` and `['c']`."""
    if not path.endswith("]"):
        return path, None
    depth = 0
    for at in range(len(path) - 1, -1, -1):
        depth += (path[at] == "]") - (path[at] == "[")
        if depth == 0:
            return path[:at], path[at:]
    return path, None


def _may_be(wanted: str | None, stored: str | None, exact: bool) -> bool:
    """Return whether a store to the key `stored` may change the value of the key `wanted`. Unless `exact`, unknown keys
    match any key."""
    return wanted == stored or (not exact and None in (wanted, stored))


@contextmanager
def lines_traced(ran: Executed, also: Trace | None = None) -> Iterator[None]:
    """Record every line of the user's code that this thread runs in this block. `also` is called for the same
    events."""

    @functools.cache
    def of_file(filename: str) -> tuple[str, Mapping[int, frozenset[Store]], set[int]]:
        file = absolute(filename)
        return file, stores_of(file), ran.lines.setdefault(file, set())

    def calls(frame: FrameType, event: str, argument: Any) -> Any:
        if not is_user_file(frame.f_code.co_filename):
            return None
        of_file(frame.f_code.co_filename)
        if frame.f_code not in ran.callers:
            ran.callers[frame.f_code] = user_frames(frame.f_back)[0] if frame.f_back is not None else ()
        return local(frame, event, argument)

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if also is not None:
            also(frame, event, argument)
        if event == "line":
            file, stores, lines = of_file(frame.f_code.co_filename)
            line = frame.f_lineno
            lines.add(line)
            if line in stores and (file, line) not in ran.stores:
                ran.stores[file, line] = user_frames(frame)[0]
        return local

    with tracing(calls):
        yield


@functools.cache
def stores_of(file: str) -> Mapping[int, frozenset[Store]]:
    """For each line, return the attributes, elements and variables to which the line stores, if they outlive the
    call."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, set[Store]] = {}
    nodes = list(ast.walk(tree))
    outer = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    new_tensors = {id(node) for one in nodes for node in _new_tensors(one)}
    for node in nodes:
        for target in _targets(node) if id(node) not in new_tensors else ():
            store = _store(target)
            if store.name in outer or not isinstance(target, ast.Name):
                found.setdefault(node.lineno, set()).add(store)  # type: ignore[attr-defined]
    return {line: frozenset(stores) for line, stores in found.items()}


def _new_tensors(node: ast.AST) -> list[ast.AST]:
    """Return those calls of methods in `_OF_TENSORS` whose results are used in this node. These are calls on tensors,
    because the methods of containers with these names return None. For example, `x in seen or seen.add(x)` does not use
    the result of `add`."""
    if isinstance(node, (ast.Expr, ast.BoolOp, ast.Lambda, ast.ListComp)):
        return []
    calls = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.Call)]
    return [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr in _OF_TENSORS]


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return [part for target in node.targets for part in _parts(target)]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        return [node.target]
    if not isinstance(node, ast.Call):
        return []
    if isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
        return [_element_of(node.func.value)]
    if isinstance(node.func, ast.Name) and node.func.id == "next" and node.args:
        return [_element_of(node.args[0])]
    if isinstance(node.func, ast.Name) and node.func.id == "setattr" and len(node.args) > 1:
        return [node.args[1]]
    return []


def _element_of(container: ast.expr) -> ast.expr:
    """Return an expression for an unknown element of the container."""
    return ast.Subscript(container, ast.Name("_"))


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for element in target.elts for part in _parts(element)]
    return [target]


def _is_data(target: ast.expr) -> bool:
    """Return whether the target is `tensor.data`. Such a store counts as a store to the tensor itself."""
    return isinstance(target, ast.Attribute) and target.attr == "data" and isinstance(target.value, ast.Attribute)


def _store(target: ast.expr) -> Store:
    key = None
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        key = f"[{target.slice.value!r}]"
    while isinstance(target, (ast.Subscript, ast.Starred)) or _is_data(target):
        target = target.value  # type: ignore[attr-defined]
    if isinstance(target, ast.Attribute):
        return Store(f".{target.attr}", key)
    if isinstance(target, ast.Call) and isinstance(target.func, ast.Name):
        return Store(f"{target.func.id}()", key)
    if isinstance(target, ast.Constant):
        return Store(f".{target.value}" if isinstance(target.value, str) else None)
    return Store(target.id if isinstance(target, ast.Name) else None, key)
