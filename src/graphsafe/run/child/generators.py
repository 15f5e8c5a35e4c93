"""Watches the random generators of graphs: one that the program replaces, and a seed that it sets before each replay.

A graph draws from the generators that were registered before its capture, and from the device's default one. A replay
reads a generator's seed and offset and moves the offset on.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import call_site
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import attributes_of, locals_of, weak_to
from graphsafe.run.child.source import function_of
from graphsafe.run.part import Facts, sites

_REGISTERED = "_graphsafe_registered"
"The attribute of a graph that lists its registered generators."
_ENOUGH = 8
"A graph that draws the same numbers at this many replays in a row is seeded before each."
SEEDING = frozenset({"manual_seed", "manual_seed_all", "set_rng_state", "set_rng_state_all", "set_state", "set_offset"})
State = tuple[int, int]
"A generator's seed and offset."


@dataclass(frozen=True, slots=True)
class Registered:
    """A generator that was registered with a graph, and the attributes that held it. The graph keeps it alive too."""

    generator: torch._C.Generator
    holders: tuple[tuple[str, weakref.ref[Any], str], ...]
    "Each with its name, the object and the attribute."


def register(graph: Any, generator: torch._C.Generator, frames: Sequence[FrameType]) -> None:
    """Note that the program has registered a generator with a graph."""
    known = graph.__dict__.setdefault(_REGISTERED, [])
    known.append(Registered(generator, tuple(_holders(generator, frames))))


def _holders(generator: torch._C.Generator, frames: Sequence[FrameType]) -> Iterator[tuple[str, weakref.ref[Any], str]]:
    for frame in frames:
        for name, value in locals_of(frame).items():
            for attribute, one in list(attributes_of(value).items()):
                owner = weak_to(value) if one is generator else None
                if owner is not None:
                    yield f"{name}.{attribute}", owner, attribute


class Draws:
    """The draws of one graph."""

    def __init__(self) -> None:
        self._before: list[tuple[torch._C.Generator, State | None]] = []
        self._drawing: list[torch._C.Generator] = []
        "The generators whose offsets a replay has moved."
        self._last: list[State | None] = []
        self._same = 0
        self.is_known = False
        "Whether a replay has told from which generators the graph draws."
        self.replaced: tuple[str, tuple[CallSite, ...]] | None = None
        "An attribute that held a registered generator and holds another at a replay, with the calls of the replay."
        self.reseeded: tuple[CallSite, ...] = ()
        "The calls that set the same seed before each replay."

    def replaying(self, graph: Any, frames: Sequence[FrameType], calls: tuple[CallSite, ...]) -> bool:
        """Look at the generators before a replay under `calls`; return whether a fault is found."""
        registered: list[Registered] = graph.__dict__.get(_REGISTERED, [])
        if not self.is_known:
            generators = [*_default(), *(one.generator for one in registered)]
            self._before = [(one, _state(one)) for one in generators]
        text = self._replaced(registered) if self.replaced is None else None
        if text is not None:
            self.replaced = text, calls
        found = text is not None
        states = list(map(_state, self._drawing))
        self._same = self._same + 1 if states and None not in states and states == self._last else 0
        self._last = states
        if self._same >= _ENOUGH and not self.reseeded:
            line = _seeding_line(frames)
            self.reseeded = calls if line is None else (line,)
            found = True
        return found

    def replayed(self) -> None:
        """Compare the offsets with those before the first replay."""
        self.is_known = True
        self._drawing = [one for one, state in self._before if state is not None and _state(one) not in (None, state)]
        self._before = []

    def facts(self, seeded: CallSite | None) -> Facts:
        """Return the facts; `seeded` is a line of the captured code that seeds a generator."""
        inside = [] if seeded is None or not self._drawing else [seeded]
        replaced = None if self.replaced is None else {"name": self.replaced[0], "frames": sites(self.replaced[1])}
        return {"replaced": replaced, "reseeded": sites(self.reseeded), "inside": sites(inside)}

    def _replaced(self, registered: Sequence[Registered]) -> str | None:
        for one in registered if self._drawing else ():
            for text, owner, attribute in one.holders:
                now = attributes_of(owner()).get(attribute)
                if not isinstance(now, torch._C.Generator) or any(now is other.generator for other in registered):
                    continue
                states = _state(now), _state(one.generator)
                if now.device == one.generator.device and None not in states and states[0] != states[1]:
                    return text
        return None


def _state(generator: torch._C.Generator) -> State | None:
    """Return the state; None if a failed capture has left the generator broken."""
    try:
        return generator.initial_seed(), generator.get_offset()
    except (RuntimeError, SystemError):  # torch 2.11 raises SystemError while waits are watched
        return None


def _default() -> list[torch._C.Generator]:
    at = torch.cuda.current_device()
    return [one for number, one in enumerate(torch.cuda.default_generators) if number == at]


def _seeding_line(frames: Sequence[FrameType]) -> CallSite | None:
    """Return the last line before the replay at which one of the running functions seeds a generator."""
    for frame in frames:
        function = function_of(frame.f_code)
        calls = [] if function is None else [one for one in ast.walk(function) if isinstance(one, ast.Call)]
        lines = [one.lineno for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr in SEEDING]
        before = [line for line in lines if line < frame.f_lineno]
        if before:
            return call_site(frame.f_code, max(before))
    return None
