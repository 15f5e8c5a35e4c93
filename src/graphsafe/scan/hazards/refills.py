"""Finds asynchronous copies from pinned memory that the host writes again before the copy is certainly complete."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from graphsafe.scan.domain.values import Tensor
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import Function, called_name, own_nodes
from graphsafe.scan.hazards.module_tensors import tables
from graphsafe.scan.hazards.owners import functions_of, may_hold_object
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.sources.source import parse

HOST_WAITS = frozenset("synchronize query item tolist cpu".split())
"Methods after which the host knows that earlier work is complete."
_ANY_WAIT = re.compile(rf"\.(?:{'|'.join(sorted({*HOST_WAITS, 'numpy'}))})\(")
"""Matches calls that may wait. `numpy()` itself does not wait, but code often calls it on a tensor whose copy to the
host is complete."""
_FILLS = re.compile(r"(?:\[.{0,200}?\]\s*=[^=]|\.(?:copy_|fill_|zero_|(?:uniform|normal|random)_|numpy)\()")
"Matches the code after a host tensor's name if that code writes into the tensor."
_LOOPS = ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.GeneratorExp


def copied(frame: Frame, node: ast.Call, source: Tensor) -> None:
    """Emit an event if an asynchronous copy reads pinned memory, and the host writes that memory again without waiting
    for the copy."""
    if not frame.hot or not source.pinned or source.where != "host" or source.attr is None or source.fresh:
        return
    ref, _, name = source.attr.rpartition(".")
    path = ref.partition("::")[0]
    files = frame.project.files
    fills = re.compile(rf"\.{re.escape(name)}{_FILLS.pattern}")
    lines = files.source(path).lines
    first = [facts for facts, _ in functions_of(frame, path) if facts.name.endswith(".__init__")]
    written = [
        number
        for number, line in enumerate(lines, 1)
        if name in line and fills.search(line)
        # A line of a constructor is kept only if it makes an array of the tensor, because other code may fill this
        # array.
        if ".numpy(" in line or not any(facts.holds(number) for facts in first)
    ]
    own = f"self.{name}"
    writers = [one for one in written if own not in lines[one - 1] or may_hold_object(frame, one, ref)]
    if writers and not any(_may_wait(frame, one) for one in sorted({path, frame.path})):
        frame.emit("AttrWrite", "host-refilled", node, value=f"`{source.name or name}`")


def _may_wait(frame: Frame, path: str) -> bool:
    """Return whether a file may wait for the device between two iterations. The loops around the copy are known only in
    a file that replays. In any other file, a single wait is enough."""
    file = frame.project.files.index(path)
    if file is None or not file.replays:
        return bool(frame.project.files.search(path, _ANY_WAIT))
    return _waits(parse(frame.project.files.source(path).text), frame.function.partition(".<")[0])


def _waits(tree: ast.Module, function: str) -> bool:
    """Return whether the host waits in each iteration of the loops that call a function, or somewhere in the function's
    class."""
    functions = _functions(tree)
    owner = function.rpartition(".")[0]
    waiting: list[ast.AST] = [
        node for name, node in functions.items() if name == function or (owner and name.rpartition(".")[0] == owner)
    ]
    callers, named = [function.rpartition(".")[2]], {function.rpartition(".")[2]}
    while callers:
        called = callers.pop()
        for name, node in functions.items():
            for around in _around_calls(node, called):
                waiting.append(around)
                last = name.rpartition(".")[2]
                if around is node and last not in named:
                    named.add(last)
                    callers.append(last)
    seen: set[ast.AST] = set()
    while waiting:
        part = waiting.pop()
        if part not in seen:
            seen.add(part)
            for call in _regular_calls(part):
                if called_name(call) in HOST_WAITS:
                    return True
                waiting += [node for name, node in functions.items() if name.rpartition(".")[2] == called_name(call)]
    return False


@memoize_on_node
def _functions(tree: ast.Module) -> Mapping[str, Function]:
    return tables(tree).by_name


def _around_calls(function: Function, name: str) -> Iterator[ast.AST]:
    """Yield the innermost loop around each call of a function, or the calling function if no loop is around the
    call."""
    calls = {call for call in inside(function, ast.Call) if called_name(call) == name}
    loops = [node for _, node in own_nodes(function) if isinstance(node, _LOOPS)]
    for call in calls:
        around = [loop for loop in loops if any(inner is call for inner in ast.walk(loop))]
        yield min(around, key=lambda loop: sum(1 for _ in ast.walk(loop)), default=function)


def _regular_calls(part: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a loop or function, except calls that run only in some iterations: `if step % 100 == 0:`."""
    waiting = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
        seldom = isinstance(node, ast.If) and any(isinstance(inner, ast.Mod) for inner in ast.walk(node.test))
        waiting += node.orelse if isinstance(node, ast.If) and seldom else ast.iter_child_nodes(node)
