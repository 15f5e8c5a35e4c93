"""One execution (visit) of a break: its inputs, the values that it passes on, and how it runs again in each replay.

The values that a break passes to the next segment are in tensors of the captured pass. Each later run of the break
copies its results into these tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import MISSING, ReachableState, held_at, put_at, put_back_host, reachable_state
from graphsafe.capture.child.targets import Subject
from graphsafe.capture.device.bits import layout_text
from graphsafe.capture.plan.child.copies import (
    cloned_tensors,
    copy_all,
    repeated_dimensions,
    storage_address,
    surroundings,
)
from graphsafe.capture.plan.child.values import cells_of, flat
from graphsafe.report.model import CallSite


class Slots:
    """The places of some paths in the target's state. Each place is found only once, because a walk over everything
    that the step can reach takes milliseconds. The walk is repeated only if a break replaces the object that holds the
    tensor."""

    def __init__(self, subject: Subject, paths: Sequence[str]) -> None:
        self._subject = subject
        self._paths = paths
        reach = reachable_state(subject) if paths else ReachableState()
        self.before = {path: reach.tensors.get(path) for path in paths}
        "The tensors that were in these places before the break first ran."
        self._places = {path: reach.owners[path] for path in paths if path in reach.owners}
        self._moving = False

    def look(self) -> None:
        """Find the places that still exist in the same objects after the break first ran."""
        if not self._paths:
            return
        now = reachable_state(self._subject).owners
        same = all(path in now and now[path][0] is place[0] for path, place in self._places.items())
        in_tuple = any(isinstance(place[0], tuple) for place in self._places.values())
        self._moving = not same or in_tuple or len(self._places) < len(self._paths)

    def tensors(self) -> dict[str, torch.Tensor]:
        if self._moving:
            now = reachable_state(self._subject).tensors
            return {path: now[path] for path in self._paths if path in now}
        found = {path: held_at(*place) for path, place in self._places.items()}
        return {path: value for path, value in found.items() if issubclass(type(value), torch.Tensor)}

    def bind(self, path: str, tensor: torch.Tensor) -> None:
        if not self._moving:
            put_at(*self._places[path], tensor)
            return
        now = reachable_state(self._subject)
        if path in now.owners:
            put_back_host(now, path, tensor)


class GuardBroken(Exception):
    """Raised if a break returns a value that differs from the one in the captured pass. The graphs after the break hold
    the value of the captured pass."""

    def __init__(self, number: int, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.number = number
        "The number of the region."
        self.name = name
        self.why = why


@dataclass(frozen=True, slots=True)
class BreakValues:
    """The values that a break passes to the captured code after it.

    `private`: variables whose memory belongs to the target and changes from step to step; each gets its own buffer.
    `slots`: paths of state that the break binds to new tensors and that captured code reads. `returns`: whether only
    other breaks and the step's caller use the break's return value. `takes`: variables that are bound to another
    break's return value, each with the line that binds it. `beyond`: variables of the break that are neither its
    arguments nor its results.
    """

    private: frozenset[str] = frozenset()
    slots: tuple[str, ...] = ()
    returns: bool = False
    takes: frozenset[tuple[str, int]] = frozenset()
    beyond: frozenset[str] = frozenset()

    def with_parts(self, parts: Iterable[BreakValues]) -> BreakValues:
        """Return these values together with the values of breaks that have become part of this break."""
        held = [self, *parts]
        return BreakValues(
            frozenset(name for one in held for name in one.private),
            tuple(dict.fromkeys(path for one in held for path in one.slots)),
            any(one.returns for one in held),
            frozenset(pair for one in held for pair in one.takes),
            self.beyond,
        )


@dataclass(eq=False)
class Call:
    """One visit of a break."""

    number: int
    eager: Callable[[], Any]
    outputs: tuple[str, ...]
    handed: BreakValues
    session: Session
    frames: tuple[CallSite, ...]
    latest: Any = None
    taken: dict[str, Call] = field(default_factory=dict)
    "Variables that are bound to the return value of an earlier break -> the visit of that break."
    _inputs: dict[str, Any] = field(default_factory=dict)
    _first: dict[str, Any] = field(default_factory=dict)
    _slots: Slots = field(init=False)
    _surroundings: Callable[[], AbstractContextManager[Any]] = field(init=False)
    _settled: set[str] = field(default_factory=set)

    @property
    def held(self) -> Mapping[str, torch.Tensor | None]:
        """Path of state that the break rebinds -> the tensor that captured code reads in its place."""
        return self._slots.before

    def run(self, earlier: Sequence[Call], handing: Callable[[], None] = lambda: None) -> Any:
        """Run the break for the first time. `earlier` are the visits before it. `handing` is called before the values
        that the break passes on are copied."""
        cells = cells_of(self.eager, self.handed.beyond)
        self._inputs = {name: cell.read() for name, cell in cells.items()}
        for name, line in self.handed.takes:
            giver = next((one for one in reversed(earlier) if one.gives(self.frames[:-1], line)), None)
            if giver is not None and name in cells and giver.latest is self._inputs[name]:
                self.taken[name] = giver
        self._slots = Slots(self.session.subject, self.handed.slots)
        self._surroundings = surroundings()
        result = self.eager()
        handing()
        self._slots.look()
        self._first = {name: cells[name].read() for name in self.outputs if name in cells}
        moving = {storage_address(tensor) for tensor in self.held.values() if tensor is not None}
        for name, value in self._first.items():
            lies_in = {storage_address(tensor) for tensor in flat(value).tensors} if moving else set()
            if name in self.handed.private or lies_in & moving:
                self._first[name] = cloned_tensors(value)
                cells[name].put(self._first[name])
        self.settle()
        if not self.handed.returns:
            self._first["return"] = result
        self.latest = result
        return result

    def compare(self, later: Call) -> None:
        """Raise GuardBroken if the values that this visit returned differ from those of `later`, the same visit in
        another step."""
        for name, first in self._first.items():
            self._pairs(name, first, later._first[name])

    def gives(self, frames: tuple[CallSite, ...], line: int) -> bool:
        """Return whether the break returned a value to a call on this line. The line is in the function to which
        `frames` lead."""
        at = len(frames)
        return self.handed.returns and self.frames[:at] == frames and self.frames[at].line == line

    def replay(self) -> None:
        cells = cells_of(self.eager, self.handed.beyond)
        for name, value in self._inputs.items():
            cells[name].put(self.taken[name].latest if name in self.taken else value)
        with self._surroundings():
            result = self.latest = self.eager()
        pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        for name, first in self._first.items():
            new = result if name == "return" else cells[name].read()
            pairs += self._pairs(name, first, new)
        self._hand_over(pairs)

    def _pairs(self, name: str, first: Any, new: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
        if (first is MISSING) != (new is MISSING):
            raise GuardBroken(self.number, name, "it has a value in some steps only")
        if isinstance(first, (bool, int, float, str, type(None))) and type(first) is type(new) and first == new:
            return []
        one, other = flat(first), flat(new)
        if one.hosts != other.hosts:
            changed = next((pair for pair in zip(one.hosts, other.hosts, strict=False) if pair[0] != pair[1]), None)
            how = "another structure" if changed is None else f"{changed[1][1]} where {changed[0][1]} was captured"
            raise GuardBroken(self.number, name, how)
        found = []
        for old, tensor in zip(one.tensors, other.tensors, strict=True):
            if tensor is old or _same_memory(old, tensor):
                continue
            same = old.shape == tensor.shape and old.dtype == tensor.dtype and old.device == tensor.device
            if not same or not set(repeated_dimensions(old)) <= set(repeated_dimensions(tensor)):
                raise GuardBroken(self.number, name, f"{layout_text(tensor)} where {layout_text(old)} was captured")
            found.append((old, tensor))
        return found

    def settle(self) -> None:
        """Copy rebound state into the captured tensors. State whose size the break changed is not copied; code that
        reads such state has to run eagerly too."""
        now = self._slots.tensors()
        for path, held in self.held.items():
            if held is not None and path in now and _alike(held, now[path]):
                self._settled.add(path)
        self._hand_over([])

    def _hand_over(self, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """For each pair, copy the second tensor into the first. Also copy rebound state into the captured tensors, and
        bind the state to these tensors again."""
        now = self._slots.tensors()
        rebound = {path: held for path, held in self.held.items() if held is not None and now.get(path) is not held}
        for path, held in rebound.items():
            new = now.get(path)
            if new is not None and _alike(held, new):
                pairs.append((held, new))
            elif new is not None and path in self._settled:
                raise GuardBroken(self.number, path, f"{layout_text(new)} where {layout_text(held)} was captured")
        copy_all(pairs)
        for path, held in rebound.items():
            if path in self._settled:
                self._slots.bind(path, held)


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    try:
        return (
            one.data_ptr() == other.data_ptr()
            and one.shape == other.shape
            and one.stride() == other.stride()
            and one.dtype == other.dtype
        )
    except RuntimeError:
        return False
