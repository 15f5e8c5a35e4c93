"""Finds reads of a result after its own graph was replayed again: `a = run(x)`, then `b = run(y)`, then `a - b`.

A variable counts as a result if the statement that made the replay is the only one that assigns it. The result counts
as overwritten if the next replay comes from a statement that makes the same call and assigns another variable.
Otherwise the program may read the new result on purpose. A `return` of both variables counts as a read.

Two graphs may also fill one buffer outside their pools. Then the first graph's result is overwritten under two
conditions: a statement that assigns another variable replays the second graph, and both variables have the same memory
when the first one is read.
"""

from __future__ import annotations

import ast
import dis
import functools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import call_site
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import locals_of, place_of, storage_number
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.results.overwritten import reads_in
from graphsafe.run.child.source import block_with, innermost
from graphsafe.run.facts import Calls, Overwritten


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of a running function."""

    frame: int
    "The `id` of the frame."
    code: CodeType
    name: str
    calls: frozenset[str]
    "The functions that the assigning statement calls."

    def tensor(self, frame: FrameType) -> torch.Tensor | None:
        """Return the tensor that the variable holds, if `frame` is the variable's frame."""
        if id(frame) != self.frame or frame.f_code is not self.code:
            return None
        value: Any = locals_of(frame).get(self.name)
        return value if issubclass(type(value), torch.Tensor) else None

    def storage(self, frame: FrameType) -> int | None:
        tensor = self.tensor(frame)
        return None if tensor is None else storage_number(tensor)


@dataclass(frozen=True, slots=True)
class _Stale:
    variable: _Variable
    owner: GraphRecord
    replay: Calls
    "The calls that led to the replay that overwrote the result."
    by: GraphRecord
    at: CallSite | None = None
    "The statement that replayed the other graph, or None if the same graph was replayed."
    beside: tuple[_Variable, ...] = ()
    "The variables that this statement assigns."

    def is_the_same(self, storage: int | None, frame: FrameType) -> bool:
        """Return whether the result of the other graph has the same memory."""
        return not self.beside or any(one.storage(frame) == storage for one in self.beside)


class Results:
    """The variables that hold results of a process's graphs.

    With `is_reading_told`, eager operations can be seen, and reads are reported to `read`. Without it, a result counts
    as read if one of the next statements in the block of the later replay reads it.
    """

    def __init__(self, is_reading_told: bool) -> None:
        self._is_reading_told = is_reading_told
        self._given: dict[GraphRecord, list[_Variable]] = {}
        "Graph -> the variables that the statements of its last replay assign."
        self._stale: list[_Stale] = []

    @property
    def is_watching(self) -> bool:
        return bool(self._stale)

    def replaying(self, record: GraphRecord, frames: Sequence[FrameType], sites: Calls) -> bool:
        """Record the variables to which the running statements will assign the replay's results.

        Return whether the replay overwrites a result that is known to be read later.
        """
        given = [variable for frame in frames for variable in _given_now(frame)]
        before, self._given[record] = self._given.get(record, []), given
        again = {(one.frame, one.name) for one in given}
        self._stale = [
            one
            for one in self._stale
            if (one.variable.frame, one.variable.name) not in again and (one.owner is one.by or one.owner is not record)
        ]
        found = False
        for variable in before if given else ():
            beside = [one for one in given if variable.frame == one.frame and variable.calls & one.calls]
            held = ((one, variable.tensor(one)) for one in frames)
            frame = next((one for one, out in held if out is not None and record.contents.owns(out)), None)
            if not beside or frame is None or (variable.frame, variable.name) in again:
                continue
            stale = _Stale(variable, record, sites, record)
            names = frozenset(one.name for one in beside)
            line = _returned(frame.f_code.co_filename, frame.f_lineno, variable.name, names)
            if line is None:
                self._stale.append(stale)
            else:
                self._overwritten(stale, call_site(frame.f_code, line))
                found = True
        if record.contents.fills:
            self._stale += self._filled_again(record, given, frames, sites)
        return found or (not self._is_reading_told and self._read_later(frames))

    def _read_later(self, frames: Sequence[FrameType]) -> bool:
        """Record the overwritten results that statements after the running replay read. Return whether there are
        any."""
        stale, self._stale = self._stale, []
        found = False
        for one in stale:
            frame = next((frame for frame in frames if one.variable.tensor(frame) is not None), None)
            line = None if frame is None else _next_read(frame.f_code.co_filename, frame.f_lineno, one.variable.name)
            if frame is not None and line is not None and one.is_the_same(one.variable.storage(frame), frame):
                self._overwritten(one, call_site(frame.f_code, line))
                found = True
        return found

    def _filled_again(
        self, record: GraphRecord, given: Sequence[_Variable], frames: Sequence[FrameType], sites: Calls
    ) -> Iterator[_Stale]:
        """Yield the results of other graphs, if this graph is about to fill their memory."""
        others = [(owner, one) for owner, known in self._given.items() if owner is not record for one in known]
        for owner, variable in others:
            beside = tuple(one for one in given if one.frame == variable.frame and one.name != variable.name)
            for frame in frames if beside else ():
                tensor = variable.tensor(frame)
                place = None if tensor is None else place_of(tensor)
                if place is not None and all(_fills(each, place) for each in (owner, record)):
                    at = call_site(frame.f_code, frame.f_lineno)
                    yield _Stale(variable, owner, sites, record, at, beside)

    def read(self, storages: Collection[int], frames: Sequence[FrameType]) -> bool:
        """Record that an operation reads storages. Return whether it is the first read of an overwritten result."""
        for one in self._stale:
            for frame in frames:
                path, line = frame.f_code.co_filename, frame.f_lineno
                storage = one.variable.storage(frame)
                if storage in storages and one.variable.name in _used(path, line) and one.is_the_same(storage, frame):
                    self._overwritten(one, call_site(frame.f_code, line))
                    self._stale = [other for other in self._stale if other.owner is not one.owner]
                    return True
        return False

    def _overwritten(self, one: _Stale, read: CallSite) -> None:
        later = None if one.at is None else read
        one.owner.overwritten = Overwritten(one.at or read, one.replay, one.by.number, later, one.variable.name)


def _fills(record: GraphRecord, place: range) -> bool:
    return any(one.start < place.stop and place.start < one.stop for one in record.contents.fills)


def _given_now(frame: FrameType) -> Iterator[_Variable]:
    """Yield the variables that only the running statement of the function assigns."""
    code = frame.f_code
    names, calls = _assigned(code.co_filename, frame.f_lineno)
    for name in names:
        if _stores(code).count(name) == 1:
            yield _Variable(id(frame), code, name, calls)


@functools.lru_cache(maxsize=1024)
def _assigned(path: str, line: int) -> tuple[tuple[str, ...], frozenset[str]]:
    statement = innermost(path, line, ast.stmt)
    if not isinstance(statement, ast.Assign):
        return (), frozenset()
    inside = [one for target in statement.targets for one in ast.walk(target)]
    calls = (ast.unparse(one.func) for one in ast.walk(statement.value) if isinstance(one, ast.Call))
    names = (one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    return tuple(names), frozenset(calls)


@functools.lru_cache(maxsize=256)
def _stores(code: CodeType) -> tuple[str, ...]:
    """Return the variables to which a function stores. A variable occurs once for each instruction that stores to
    it."""
    found: list[str] = []
    for one in dis.get_instructions(code):
        if "STORE_" in one.opname:
            names = one.argval if isinstance(one.argval, tuple) else (one.argval,)
            # From Python 3.13 on, one instruction may store two variables, or store one and load another.
            found += names[:1] if "LOAD_" in one.opname else names
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def _next_read(path: str, line: int, name: str) -> int | None:
    """Return the line of the first statement after `line` in the same block that uses a variable's value.

    Statements that contain a block are not searched, because their block may not run.
    """
    plain = (one for one in _after(path, line) if isinstance(one, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)))
    return next((at for one in plain for read, at in reads_in(one) if read == name), None)


@functools.lru_cache(maxsize=1024)
def _returned(path: str, line: int, name: str, others: frozenset[str]) -> int | None:
    """Return the line of a later `return` in the same block that returns a variable together with one of `others`."""
    for one in _after(path, line):
        if isinstance(one, ast.Return) and isinstance(one.value, (ast.Tuple, ast.List)):
            names = {element.id for element in one.value.elts if isinstance(element, ast.Name)}
            if name in names and not others.isdisjoint(names):
                return one.lineno
    return None


def _after(path: str, line: int) -> Sequence[ast.stmt]:
    """Return the statements that follow the statement at `line` in its block."""
    statement = innermost(path, line, ast.stmt)
    block = block_with(path, statement)
    return block[block.index(statement) + 1 :] if block else ()


@functools.lru_cache(maxsize=1024)
def _used(path: str, line: int) -> frozenset[str]:
    """Return the variables whose values the statement at `line` uses."""
    statement = innermost(path, line, ast.stmt)
    return frozenset(name for name, _ in reads_in(statement, with_statements=False)) if statement else frozenset()
