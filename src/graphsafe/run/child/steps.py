"""Finds steps that ran without a graph although the process has captured the same step.

Either the step was captured for other sizes only, or a graph of this size was formerly replayed from the same line. On
the simulated device, a step is identified by the first operation of its capture. On a GPU, a step is identified by the
captured function (`calls.py`). In both cases, the shapes of the arguments are the step's sizes.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from graphsafe.report.model import CallSite
from graphsafe.run.child.source import is_in_loop, same_loop
from graphsafe.run.facts import Calls, StepFacts

Key = tuple[str, str, int]
"""The name of the first operation or of the function, and two further parts.

These are either a path and a line, or "" and the number of the operation's storage or of the step.
"""
Shapes = tuple[tuple[int, ...], ...]
_MOST_SHAPES = 10_000
_ENOUGH = 8
"""A graph counts as turned off after this many eager steps of its size without a replay in between.

After this many eager steps of a size that was not captured, the calls that lead to these steps are recorded anew.
"""


class Played(Protocol):
    """The replays of a process's graphs, by graph number."""

    def replays(self, graph: int) -> int:
        """Return how often a graph was replayed."""

    def stacks(self, graph: int) -> Collection[Calls]:
        """Return some of the call stacks that led to the graph's replays."""


@dataclass(frozen=True, slots=True)
class Step:
    keys: tuple[Key, ...]
    "The keys of the step. Each of them identifies it."
    shapes: Shapes
    frames: Calls
    "The user's calls that lead to the step, outermost first."
    recorded: bool = False
    "Whether autograd records the step."
    times: int = 1
    "How often the step's first operation runs in one step."

    def is_repeated_by(self, other: Step) -> bool:
        """Return whether the first operations of both steps cannot be distinguished. `other` may be this step
        itself."""
        return self.shapes == other.shapes and not set(self.keys).isdisjoint(other.keys)


@dataclass(slots=True)
class _Eager:
    frames: Calls
    """The calls that led to the first step of this size. If there are many such steps, the calls that led to a later
    step."""
    count: int = 0
    replays: int = 0
    "How often this step's graphs had been replayed when a step of this size last ran eagerly."


@dataclass(slots=True)
class _Row:
    """Eager steps of a captured size, between which no graph of this size was replayed."""

    replays: int
    "The number of replays before the first of these steps."
    length: int = 0
    counts: bool = False


@dataclass(slots=True)
class _Seen:
    frames: Calls
    recorded: bool
    captured: dict[Shapes, list[int]] = field(default_factory=dict)
    "Shapes -> the numbers of the graphs."
    eager: dict[Shapes, _Eager] = field(default_factory=dict)
    rows: dict[Shapes, _Row] = field(default_factory=dict)
    times: int = 1
    "How often the step's first operation runs in one step."
    operations: Counter[Shapes] = field(default_factory=Counter)
    "Shapes -> how often the first operation ran eagerly. Every `times` such runs belong to one step."
    off: dict[Shapes, _Eager] = field(default_factory=dict)
    "Shapes -> the eager steps of this captured size, if its graphs seem to be turned off."


class Steps:
    def __init__(self, played: Played) -> None:
        self._played = played
        self._seen: dict[Key, _Seen] = {}
        self.names: set[str] = set()
        "The names of the first operations, or of the functions, of captured steps."
        self._left: set[Key] = set()

    def leave(self, keys: Collection[Key]) -> None:
        """Stop counting steps with these keys, because their operation or function runs several times in one step."""
        self._left.update(keys)
        left = {id(self._seen[key]) for key in keys if key in self._seen}
        self._seen = {key: seen for key, seen in self._seen.items() if id(seen) not in left}

    def forget(self) -> None:
        self._seen.clear()
        self.names.clear()

    def captured(self, step: Step | None, graph: int) -> None:
        if step is None or not self._left.isdisjoint(step.keys):
            return
        seen = self._of(step.keys) or _Seen(step.frames, step.recorded)
        seen.captured.setdefault(step.shapes, []).append(graph)
        seen.times = max(seen.times, step.times)
        seen.rows.pop(step.shapes, None)
        self.names.update(name for name, _, _ in step.keys)
        self._seen.update(dict.fromkeys(step.keys, seen))

    def eager(
        self, keys: Sequence[Key], shapes: Shapes, recorded: bool, frames: Callable[[], Sequence[CallSite]]
    ) -> None:
        """Count a step that ran without a graph, at its first operation. `frames` returns the calls that led to it."""
        seen = self._of(keys)
        if seen is None:
            return
        if seen.times > 1:
            seen.operations[shapes] += 1
            if seen.operations[shapes] % seen.times != 1:
                return
        if shapes in seen.captured:
            if recorded == seen.recorded:
                self._without(seen, shapes, frames)
            return
        # An evaluation begins with the same operation as the captured training step, but autograd does not record it.
        # A training step may also begin like the captured step of an actor. Then autograd records only the training.
        if seen.recorded is not recorded:
            return
        known = seen.eager.get(shapes)
        if known is None and len(seen.eager) < _MOST_SHAPES:
            known = seen.eager[shapes] = _Eager(_own(frames(), seen.frames))
        if known is not None:
            known.count += 1
            known.replays = self._replays(seen)
            if known.count == _ENOUGH:  # the first steps may have been a warm-up
                known.frames = _own(frames(), seen.frames)

    def _replays(self, seen: _Seen) -> int:
        return sum(map(self._played.replays, _graphs(seen)))

    def _is_beside_replays(self, seen: _Seen, eager: _Eager) -> bool:
        """Return whether the eager steps run among replays.

        They do if a replay of the same step followed, or if the eager steps have no loop of their own. Eager steps in
        their own loop, after the last replay, are taken for a check or a benchmark.
        """
        stacks = [stack for graph in _graphs(seen) for stack in self._played.stacks(graph)]
        if not stacks or self._replays(seen) > eager.replays:
            return True
        return not is_in_loop(eager.frames) or any(same_loop(eager.frames, stack) for stack in stacks)

    def _without(self, seen: _Seen, shapes: Shapes, frames: Callable[[], Sequence[CallSite]]) -> None:
        """Count an eager step of a captured size, if many such steps run in a row in the loop that made replays."""
        graphs = seen.captured[shapes]
        replays = sum(map(self._played.replays, graphs))
        row = seen.rows.get(shapes)
        if row is None or row.replays != replays:
            row = seen.rows[shapes] = _Row(replays)
        row.length += 1
        if replays and row.length == _ENOUGH:
            own = _own(frames(), seen.frames)
            row.counts = any(same_loop(own, stack) for graph in graphs for stack in self._played.stacks(graph))
            if row.counts:
                seen.off.setdefault(shapes, _Eager(own)).count += _ENOUGH
        elif row.counts:
            seen.off[shapes].count += 1

    def _of(self, keys: Sequence[Key]) -> _Seen | None:
        return next((self._seen[key] for key in keys if key in self._seen), None)

    def facts(self) -> tuple[StepFacts, ...]:
        """Return the facts about each captured step: the sizes at which it ran eagerly, and the captured sizes."""
        found = []
        for seen in {id(one): one for one in self._seen.values()}.values():
            known = dict(seen.captured)  # a copy, because another thread may capture meanwhile
            axes = _axes(known)
            sized = [
                (_size(shapes, known, axes), one) for shapes, one in list(seen.eager.items()) if shapes not in known
            ]
            eager = [(size, one) for size, one in sized if size is not None and self._is_beside_replays(seen, one)]
            most = max((one for _, one in eager), key=lambda one: one.count, default=None)
            sizes: Counter[int] = Counter()
            captured: defaultdict[int, list[int]] = defaultdict(list)
            off: Counter[int] = Counter()
            for size, one in eager:
                sizes[size] += one.count
            for at, axis in _axis_of_sizes(axes, known, list(seen.eager)):
                for shapes, graphs in known.items():
                    captured[shapes[at][axis]] += graphs
                    if shapes in seen.off:
                        off[shapes[at][axis]] += seen.off[shapes].count
            found.append(
                StepFacts(
                    place=tuple(most.frames[-1:]) if most is not None else (),
                    sizes=_by_size(sizes),
                    captured={size: tuple(graphs) for size, graphs in _by_size(captured).items()},
                    off=_by_size(off),
                    off_at=tuple(one.frames[-1] for one in seen.off.values() if one.frames)[:1],
                )
            )
        return tuple(found)


def _by_size(found: Mapping[int, Any]) -> dict[str, Any]:
    return {str(size): found[size] for size in sorted(found)}


def _graphs(seen: _Seen) -> list[int]:
    return [graph for graphs in list(seen.captured.values()) for graph in graphs]


def _own(frames: Sequence[CallSite], captured: Sequence[CallSite]) -> Calls:
    """Return the calls of an eager step, but leave out the innermost calls that the capture has too."""
    pairs = zip(reversed(frames), reversed(captured), strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return tuple(frames[: len(frames) - shared])


def _axes(captured: Collection[Shapes]) -> list[tuple[int, int]]:
    """Return the dimensions of tensors in which the captures of one step differ.

    For a single capture, return the first dimension of each tensor. The tensor with the most dimensions comes first,
    because a bias has fewer dimensions than an input.
    """
    first = next(iter(captured))
    varying = sorted({axis for shapes in captured if _alike(shapes, first) for axis in _differing(shapes, first)})
    return varying or [(at, 0) for at in sorted(range(len(first)), key=lambda at: -len(first[at])) if first[at]]


def _axis_of_sizes(
    axes: Sequence[tuple[int, int]], captured: Collection[Shapes], eager: Collection[Shapes]
) -> Sequence[tuple[int, int]]:
    """Return the first of these dimensions in which an eager step differs from a captured one.

    If no eager step differs in any of them, return the first dimension. The result is empty if `axes` is empty.
    """
    first = next(iter(captured))
    others = [shapes for shapes in eager if _size(shapes, captured, axes) is not None]
    varying = [(at, axis) for at, axis in axes if any(shapes[at][axis] != first[at][axis] for shapes in others)]
    return (varying or axes)[:1]


def _size(shapes: Shapes, captured: Collection[Shapes], axes: Sequence[tuple[int, int]]) -> int | None:
    """Return the size of an eager step if the step differs from a captured step only in this size; otherwise return
    None."""
    for known in captured:
        other = _differing(shapes, known) if _alike(shapes, known) else set()
        values = {(known[at][axis], shapes[at][axis]) for at, axis in other}
        if other and other <= set(axes) and len(values) == 1:
            return values.pop()[1]
    return None


def _differing(one: Shapes, other: Shapes) -> set[tuple[int, int]]:
    """Return the dimensions of tensors in which two steps differ."""
    return {(at, axis) for at, shape in enumerate(one) for axis, size in enumerate(shape) if size != other[at][axis]}


def _alike(one: Shapes, other: Shapes) -> bool:
    return [len(shape) for shape in one] == [len(shape) for shape in other]
