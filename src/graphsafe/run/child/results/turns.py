"""Finds reads of a result after another task or thread has replayed the graph.

A function replays a graph, waits (`await`), and reads the result only then. If another task of asyncio, or another
thread, replays the graph during this wait, the read finds the result of that replay. Tasks and threads that exclude
each other with a lock never replay during such a wait.

The wait is found when the graph is replayed again. Then the function of the previous replay still runs, in another task
or thread, and one of the next statements of its block reads the result. So the read itself need not be observed.
"""

from __future__ import annotations

import ast
import functools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType
from typing import Any

import torch

from graphsafe.capture.shared.classify import Function
from graphsafe.capture.shared.frames import call_site, frames_from
from graphsafe.run.child.frozen.origins import running_in
from graphsafe.run.child.names import is_inside, place_of
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.results.overwritten import reads_in
from graphsafe.run.child.source import block_with, holding
from graphsafe.run.facts import Calls, Overwritten

_AROUND = (ast.With, ast.AsyncWith, ast.Try, ast.For, ast.AsyncFor, ast.While)
"Statements whose blocks always run. A replay in such a block comes before the statements that follow."
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_NAMES = (ast.Name, ast.Attribute, ast.Subscript)
_MOST_TURNS = 64
"At most this many changes between tasks or threads are examined for a graph."


@dataclass(frozen=True, slots=True)
class _Read:
    """An expression that one of the next statements uses."""

    text: str
    line: int
    is_returned: bool
    "Whether the statement only returns the value. Then the value counts as used only if the caller uses it."


@dataclass(frozen=True, slots=True)
class _Turn:
    """The task and the thread of a graph's last known replay, and the functions that led to it."""

    thread: int
    task: weakref.ref[Any] | None
    frames: Mapping[int, tuple[CodeType, int]]
    "The `id` of a frame -> its function, and the line that led to the replay."

    def waiting(self) -> Iterator[Sequence[FrameType]]:
        """Yield the stacks of the waiting task and of the thread, each with the innermost frame first."""
        task = None if self.task is None else self.task()
        if task is not None and hasattr(task, "get_coro"):
            yield list(_suspended(task.get_coro()))[::-1]
        if self.thread != threading.get_ident():
            yield list(frames_from(sys._current_frames().get(self.thread)))


class Turns:
    """The last known replay of each graph."""

    def __init__(self) -> None:
        self._last: dict[GraphRecord, _Turn] = {}
        self._changes: Counter[GraphRecord] = Counter()

    def replaying(self, record: GraphRecord, frames: Sequence[FrameType], sites: Calls) -> bool:
        """Record the replay. Return whether it overwrites a result that a waiting function reads next."""
        now = _Turn(threading.get_ident(), _task(), {id(one): (one.f_code, one.f_lineno) for one in frames})
        before, self._last[record] = self._last.get(record), now
        if before is None or (before.thread, before.task) == (now.thread, now.task) or not self.is_wanted(record):
            return False
        self._changes[record] += 1
        for stack in before.waiting():
            for at, frame in enumerate(stack):
                code, line = before.frames.get(id(frame), (None, 0))
                read = _read_next(record, frame, line, stack[at + 1 :]) if code is frame.f_code else None
                if read is not None:
                    place = call_site(frame.f_code, read.line)
                    record.overwritten = Overwritten(place, sites, record.number, kept=read.text)
                    return True
        return False

    def is_wanted(self, record: GraphRecord) -> bool:
        return record.overwritten is None and self._changes[record] < _MOST_TURNS


def _task() -> weakref.ref[Any] | None:
    """Return the running task of asyncio, or None."""
    asyncio: Any = sys.modules.get("asyncio")  # a program without tasks does not import it
    running: Callable[[], Any] | None = getattr(asyncio, "_get_running_loop", None)
    loop = None if running is None else running()
    task = None if loop is None else asyncio.current_task(loop)
    return None if task is None else weakref.ref(task)


def _suspended(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine and of the coroutines for which it waits, outermost first."""
    while coroutine is not None:
        if isinstance(coroutine, CoroutineType):
            frame, coroutine = coroutine.cr_frame, coroutine.cr_await
        elif isinstance(coroutine, GeneratorType):
            frame, coroutine = coroutine.gi_frame, coroutine.gi_yieldfrom
        elif isinstance(coroutine, AsyncGeneratorType):
            frame, coroutine = coroutine.ag_frame, coroutine.ag_await
        else:
            return
        if frame is not None:
            yield frame


def _read_next(record: GraphRecord, frame: FrameType, replayed: int, callers: Sequence[FrameType]) -> _Read | None:
    """Return the first use of the graph's result in the statements that a waiting function runs next."""
    reads = reads_after(frame.f_code.co_filename, replayed, frame.f_lineno)
    scope = running_in(frame) if reads else None
    for read in reads:
        value: Any = None if scope is None else scope.origin(ast.parse(read.text, mode="eval").body).value
        is_result = issubclass(type(value), torch.Tensor) and _is_result(record, value)
        if is_result and (not read.is_returned or _is_used(callers)):
            return read
    return None


def _is_result(record: GraphRecord, tensor: torch.Tensor) -> bool:
    """Return whether a tensor is in memory that each replay of the graph overwrites completely."""
    place = place_of(tensor)
    is_filled = place is not None and any(is_inside(place, one) for one in record.contents.fills)
    return is_filled or record.contents.owns(tensor)


def _is_used(callers: Sequence[FrameType]) -> bool:
    """Return whether the calling function uses what a function returns. The result of a task counts as used. The result
    of a thread counts as unused."""
    if not callers:
        return True
    path = callers[0].f_code.co_filename
    statements = statements_around(path, callers[0].f_lineno)
    value = statements[-1].value if statements and isinstance(statements[-1], ast.Expr) else None
    is_alone = isinstance(value, (ast.Await, ast.Call))
    return bool(statements) and not is_alone and not path.endswith("threading.py")


@functools.lru_cache(maxsize=1024)
def reads_after(path: str, replayed: int, waits: int) -> Sequence[_Read]:
    """Return the expressions that the statements after a wait use, up to the next replay.

    The line `replayed` has replayed a graph, and the line `waits` is running. Return nothing if `waits` is not certain
    to come after `replayed`.
    """
    places = _unconditional(path, replayed)
    calls = {ast.unparse(one.func) for one in ast.walk(places[0]) if isinstance(one, ast.Call)} if places else set()
    found: list[_Read] = []
    stored: set[str] = set()
    for statement in reversed(statements_around(path, waits)):
        block = block_with(path, statement)
        earlier = [block.index(one) for one in places if one in block]
        at = block.index(statement)
        if earlier and (earlier[0] > at or (earlier[0] == at and statement is not places[0])):
            return ()
        for one in block[at + 1 :]:
            inside = list(ast.walk(one))
            if any(isinstance(each, ast.Call) and ast.unparse(each.func) in calls for each in inside):
                return found
            parts = tuple(f"{text}{end}" for text in stored for end in (".", "["))
            found += [read for read in _reads(one) if read.text not in stored and not read.text.startswith(parts)]
            if isinstance(one, (ast.Return, ast.Raise)):
                return found
            if isinstance(one, _LEAVING):
                break
            stored |= {ast.unparse(each) for each in inside if isinstance(getattr(each, "ctx", None), ast.Store)}
        if earlier:
            return found
    return ()


def _reads(statement: ast.stmt) -> Iterator[_Read]:
    for text, line in reads_in(statement, with_statements=False, kinds=_NAMES):
        yield _Read(text, line, False)
    value = statement.value if isinstance(statement, ast.Return) else None
    for one in value.elts if isinstance(value, ast.Tuple) else [value]:
        if isinstance(one, _NAMES):
            yield _Read(ast.unparse(one), one.lineno, True)


def _unconditional(path: str, line: int) -> Sequence[ast.stmt]:
    """Return the statement at a line, and the statements around it up to the first one whose block may not run."""
    around = statements_around(path, line)[::-1]
    found = list(around[:1])
    for one in around[1:]:
        if not isinstance(one, _AROUND):
            break
        found.append(one)
    return found


def statements_around(path: str, line: int) -> Sequence[ast.stmt]:
    """Return the statements of the innermost function that contain a line, outermost first."""
    found: list[ast.stmt] = []
    for one in holding(path, line):
        if isinstance(one, ast.stmt):
            found = [] if isinstance(one, (Function, ast.ClassDef)) else [*found, one]
    return found
