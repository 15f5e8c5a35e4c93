"""Finds reads of a graph's result after a replay of another graph of the same pool has overwritten it.

The memory of a result may also be temporary memory of a graph that was captured earlier into the same pool. A replay of
the earlier graph then overwrites the result. This is harmless if the program no longer needs the result. So reads are
watched while variables hold the result, from a replay of the earlier graph until the next replay of the result's own
graph. `sys.monitoring` (from Python 3.12 on) reports each line that runs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType

import torch

from graphsafe.capture.shared.classify import tree_of
from graphsafe.capture.shared.frames import call_site
from graphsafe.capture.shared.monitoring import Monitor
from graphsafe.failure import in_one_line
from graphsafe.report.source import kept_by_lines
from graphsafe.run.child.names import locals_of, storage_number
from graphsafe.run.child.outputs import PUTS
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.source import lines_of
from graphsafe.run.facts import Calls, Overwritten

_TRIES = 16
"If a graph overwrites results, they are watched during this many of its replays."
_NAMES = (ast.Name, ast.Attribute)
_METADATA = frozenset({"shape", "dtype", "device", "size", "stride", "dim", "ndim", "numel", "data_ptr", "is_cuda"})
_PARTS = (ast.Return, ast.Assign, ast.NamedExpr, ast.AnnAssign)
"Syntax that passes a value on without using it."
_INSIDE = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred, ast.keyword)
"Syntax that uses its values only if the surrounding expression uses them."
_ASKING = frozenset({"len", "id", "type", "isinstance", "hasattr", "getattr"})
"Functions that do not use a tensor's values."


@dataclass(slots=True)
class _Watched:
    name: str
    lines: frozenset[int]
    storage: int
    owner: GraphRecord
    count: int
    "The number of times that the result's own graph had been replayed when the other graph overwrote the result."
    by: int
    replay: Calls
    running: int | None = None
    "The line that reads, while it runs. This line may itself replay the result's own graph before it reads."


class Reads:
    """Watches a process's results.

    `replays` returns how often a graph was replayed, and `tell` is called when a read is found.
    """

    def __init__(self, replays: Callable[[int], int], tell: Callable[[], None]) -> None:
        self._replays = replays
        self._tell = tell
        self._watched: dict[CodeType, list[_Watched]] = {}
        self._monitor = Monitor({"LINE": self._line, "PY_RETURN": self._returned})
        self.problem = self._monitor.problem

    def close(self) -> None:
        for code in list(self._watched):
            self._listen(code, [])
        self._monitor.close()

    def replaying(self, record: GraphRecord, frames: Sequence[FrameType], sites: Calls) -> None:
        """Watch the variables of `frames` that hold a result which this replay is about to overwrite."""
        if not self._monitor or record.looks >= _TRIES:
            return
        for owner, storage in record.overwrites:
            count = self._replays(owner.number)
            if not count or owner.dropped is not None or owner.overwritten is not None:
                continue
            for frame in frames:
                code = frame.f_code
                for name in _holding(frame, storage):
                    lines = _lines_that_read(code.co_filename).get(name, frozenset())
                    own = lines & lines_of(code)
                    watched = _Watched(name, own, storage, owner, count, record.number, sites)
                    if own:
                        self._listen(code, [*self._watched.get(code, ()), watched])

    def _listen(self, code: CodeType, watched: Sequence[_Watched]) -> None:
        if watched:
            self._watched[code] = list(watched)
        else:
            self._watched.pop(code, None)
        self._monitor.hear(*(("LINE", "PY_RETURN") if watched else ()), of=code)

    def _line(self, code: CodeType, line: int) -> None:
        self._safely(code, line, sys._getframe(1))

    def _returned(self, code: CodeType, *_: object) -> None:
        self._safely(code, None, sys._getframe(1))

    def _safely(self, code: CodeType, line: int | None, frame: FrameType) -> None:
        try:
            self._ran(code, line, frame)
        except Exception as error:  # an error of graphsafe must not stop the program
            self.problem = in_one_line(error)
            self.close()

    def _ran(self, code: CodeType, line: int | None, frame: FrameType) -> None:
        """Decide whether the line that has just run was a read. Then check whether the line that runs next reads a
        watched result."""
        before = self._watched.get(code, [])
        still = []
        for one in before:
            if one.owner.overwritten is not None or self._replays(one.owner.number) != one.count:
                continue
            if one.running is not None:
                read = call_site(code, one.running)
                one.owner.overwritten = Overwritten(read, one.replay, one.by)
                self._tell()
                continue
            reads = line in one.lines and one.name in _holding(frame, one.storage)
            one.running = line if reads else None
            still.append(one)
        if len(still) < len(before):
            self._listen(code, still)


def _holding(frame: FrameType, storage: int) -> list[str]:
    """Return the variables of a function that hold a tensor of this storage."""
    with torch._C.DisableTorchFunction():
        values = locals_of(frame).items()
        return [name for name, one in values if isinstance(one, torch.Tensor) and storage_number(one) == storage]


@kept_by_lines
def _lines_that_read(lines: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return the lines of a file that use the value of a variable, by the variable's name."""
    found: dict[str, set[int]] = {}
    for name, line in reads_in(tree_of(lines)):
        found.setdefault(name, set()).add(line)
    return {name: frozenset(numbers) for name, numbers in found.items()}


def reads_in(
    tree: ast.AST, *, with_statements: bool = True, kinds: tuple[type[ast.expr], ...] = _NAMES
) -> Iterator[tuple[str, int]]:
    """Yield the variables and attributes (`self.out`) whose values the code uses, with their lines.

    Nested statements are searched only with `with_statements`. `kinds` may also contain `ast.Subscript`.
    """
    todo = [(tree, tree)]
    while todo:
        node, user = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, kinds) and isinstance(child.ctx, ast.Load) and _uses(user, child):  # type: ignore[attr-defined]
                yield ast.unparse(child), child.lineno
            if isinstance(child, ast.Name):
                continue
            if with_statements or not isinstance(child, ast.stmt):
                todo.append((child, user if isinstance(child, _INSIDE) else child))


def _uses(node: ast.AST, name: ast.expr) -> bool:
    """Return whether a node uses the value of a name. Passing the value on, writing it and reading its shape do not
    count."""
    if isinstance(node, _PARTS) or (isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot))):
        return False
    if isinstance(node, ast.Attribute):
        writes = node.attr.endswith("_") and not node.attr.endswith("__")
        return node.attr not in _METADATA and not writes
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr not in PUTS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return name is not node.func and node.func.id not in _ASKING
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.FormattedValue, ast.If, ast.While))
