"""Finds faults in the use of random generators by graphs.

There are three faults: the program replaces a registered generator, registers a generator while another device is
current, or sets the same seed before each replay. A graph draws from the device's default generator and from the
generators that were registered before its capture. A replay reads a generator's seed and offset and advances the
offset.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import call_site, is_user_file
from graphsafe.report.model import CallSite
from graphsafe.run.child.assigning import assigning_line
from graphsafe.run.child.frozen.origins import callee, running_in
from graphsafe.run.child.names import attributes_of, locals_of, weak_to
from graphsafe.run.child.source import function_of, is_seeding, outer_loop, tree_of_code
from graphsafe.run.facts import GeneratorFacts, ReplacedGenerator

_REGISTERED = "_graphsafe_registered"
"The attribute of a graph that lists its registered generators."
_UNNAMED = "a registered generator"
_DEFAULT = "the device's default generator"
_ENOUGH = 8
"""If a graph draws the same numbers in this many replays in a row, graphsafe concludes that the program seeds the
generator before each replay."""
State = tuple[int, int]
"A generator's seed and offset."


@dataclass(frozen=True, slots=True)
class Registered:
    """A generator that was registered with a graph, and the attributes that held it. The graph keeps it alive too."""

    generator: torch._C.Generator
    holders: tuple[tuple[str, weakref.ref[Any], str], ...]
    "The attributes that held the generator. Each is the full name, the object and the name of the attribute."
    name: str
    calls: tuple[CallSite, ...] = ()
    "The calls that registered the generator."
    is_elsewhere: bool = False
    "Whether another device was current when it was registered."


def register(
    graph: Any, generator: torch._C.Generator, frames: Sequence[FrameType], calls: tuple[CallSite, ...]
) -> None:
    """Record that the program has registered a generator with a graph. `calls` led to the registration."""
    known = graph.__dict__.setdefault(_REGISTERED, [])
    holders = tuple(_holders(generator, frames))
    variables = (name for frame in frames for name, value in locals_of(frame).items() if value is generator)
    name = [*(name for name, _, _ in holders), *variables, _UNNAMED][0]
    is_elsewhere = generator.device.index not in (None, torch.cuda.current_device())
    known.append(Registered(generator, holders, name, calls, is_elsewhere))


def _holders(generator: torch._C.Generator, frames: Sequence[FrameType]) -> Iterator[tuple[str, weakref.ref[Any], str]]:
    for frame in frames:
        for name, value in locals_of(frame).items():
            for attribute, one in list(attributes_of(value).items()):
                owner = weak_to(value) if one is generator else None
                if owner is not None:
                    yield f"{name}.{attribute}", owner, attribute


class Draws:
    """The random numbers that one graph draws."""

    def __init__(self) -> None:
        self._before: list[tuple[str, torch._C.Generator, State | None]] = []
        self._drawing: list[torch._C.Generator] = []
        "The generators whose offsets a replay has advanced."
        self.names: list[str] | None = None
        "The names of the generators in `_drawing`. It is None before the first replay."
        self._last: list[State | None] = []
        self._same = 0
        self.is_known = False
        "Whether a replay has shown which generators the graph draws from."
        self._faults = GeneratorFacts()

    def replaying(self, graph: Any, frames: Sequence[FrameType], calls: tuple[CallSite, ...]) -> bool:
        """Check the generators before a replay, to which `calls` led. Return whether a new fault was found."""
        faults = self._faults
        registered: list[Registered] = graph.__dict__.get(_REGISTERED, [])
        if not self.is_known:
            generators = [(_DEFAULT, one) for one in _default()] + [(one.name, one.generator) for one in registered]
            self._before = [(name, one, _state(one)) for name, one in generators]
            faults.misplaced = next((one.calls for one in registered if one.is_elsewhere), ())
        replaced = self._replaced(registered) if faults.replaced is None else None
        if replaced is not None:
            text, owner, attribute, registering = replaced
            line = assigning_line(owner, attribute, registering)
            at = calls if line is None else (line,)
            faults.replaced = ReplacedGenerator(text, at, is_line_known=line is not None)
        found = replaced is not None or (not self.is_known and bool(faults.misplaced))
        states = list(map(_state, self._drawing))
        self._same = self._same + 1 if states and None not in states and states == self._last else 0
        self._last = states
        if self._same >= _ENOUGH and not faults.reseeded and not faults.between:
            line = _seeding_line(frames)
            faults.reseeded, faults.between = ((), calls) if line is None else ((line,), ())
            found = True
        return found

    def replayed(self) -> None:
        """Find the generators that the first replay has advanced."""
        self.is_known = True
        moved = [
            (name, one) for name, one, state in self._before if state is not None and _state(one) not in (None, state)
        ]
        self._drawing, self.names = [one for _, one in moved], [name for name, _ in moved]
        self._before = []

    def facts(self, seeded: CallSite | None) -> GeneratorFacts:
        """Return the facts for the ledger. `seeded` is a line of the captured code that seeds a generator."""
        inside = () if seeded is None or not self._drawing else (seeded,)
        return replace(self._faults, inside=inside)

    def _replaced(self, registered: Sequence[Registered]) -> tuple[str, Any, str, tuple[CallSite, ...]] | None:
        """Return the attribute that held a registered generator and now holds another one.

        The result consists of the attribute's text, object and name, and of the calls that registered the first
        generator.
        """
        for one in registered if self._drawing else ():
            for text, owner, attribute in one.holders:
                now = attributes_of(owner()).get(attribute)
                if not isinstance(now, torch._C.Generator) or any(now is other.generator for other in registered):
                    continue
                states = _state(now), _state(one.generator)
                if now.device == one.generator.device and None not in states and states[0] != states[1]:
                    return text, owner(), attribute, one.calls
        return None


def _state(generator: torch._C.Generator) -> State | None:
    """Return the seed and offset, or None if a failed capture has left the generator broken."""
    try:
        return generator.initial_seed(), generator.get_offset()
    except (RuntimeError, SystemError):  # SystemError: see gpu_trace.py
        return None


def _default() -> list[torch._C.Generator]:
    at = torch.cuda.current_device()
    return [one for number, one in enumerate(torch.cuda.default_generators) if number == at]


def _seeding_line(frames: Sequence[FrameType]) -> CallSite | None:
    """Return the line that seeds a generator between replays.

    The line is in a loop around the replay, in a function that is running in that loop, or in a function that such code
    calls.
    """
    trees = [tree_of_code(one.f_code) for one in frames]
    loops = [outer_loop(tree, one.f_lineno) for tree, one in zip(trees, frames, strict=True)]
    for at, frame in enumerate(frames):
        repeated = loops[at] or (trees[at] if any(loops[at + 1 :]) else None)
        calls = [one for one in ast.walk(repeated) if isinstance(one, ast.Call)] if repeated is not None else []
        own = list(filter(is_seeding, calls))
        if own:
            before = [one.lineno for one in own if one.lineno < frame.f_lineno]
            return call_site(frame.f_code, max(before or [one.lineno for one in own]))
        scope = running_in(frame)
        for call in calls:
            known = callee(scope.origin(call.func).value)
            tree = None if known is None else function_of(known[0].__code__)
            inner = next(filter(is_seeding, ast.walk(tree)), None) if tree is not None else None
            if known is not None and isinstance(inner, ast.Call):
                code = known[0].__code__
                is_ours = is_user_file(code.co_filename)
                return call_site(code, inner.lineno) if is_ours else call_site(frame.f_code, call.lineno)
    return None
