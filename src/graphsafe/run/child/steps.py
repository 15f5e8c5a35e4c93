"""Finds steps that ran without a graph although their process has captured the same step: at other sizes, or at the
same size by a call that formerly replayed the graph.

On the simulated device a step is identified by the first operation of its capture, on a GPU by the captured function
(`calls.py`), in both cases with its argument shapes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from graphsafe.report.model import CallSite
from graphsafe.run.child.source import is_in_loop, same_loop

Key = tuple[str, str, int]
"""The name of the first operation or of the function. After it comes either a path and a line, or an empty text and the
number of the operation's storage or of the step."""
Shapes = tuple[tuple[int, ...], ...]
Stack = tuple[CallSite, ...]
_MOST_SHAPES = 10_000
_ENOUGH = 8
"""A graph counts as turned off after this many eager steps of its size without a replay in between. After this many
eager steps, their place is also read again."""


class Played(Protocol):
    """The replays of a process's graphs, by their numbers."""

    def replays(self, graph: int) -> int:
        """Return the number of replays of a graph."""

    def stacks(self, graph: int) -> Collection[Stack]:
        """Return some calls that led to the graph's replays."""


@dataclass(frozen=True, slots=True)
class Step:
    keys: tuple[Key, ...]
    "Keys of the step; each key alone identifies it."
    shapes: Shapes
    frames: tuple[CallSite, ...]
    "The user's calls that lead to the step, outermost first."
    recorded: bool = False
    "Whether autograd records the step."


@dataclass(slots=True)
class _Eager:
    frames: Stack
    "The calls that led to a step with these shapes: to the first step, or to a later one if there are many."
    count: int = 0
    replays: int = 0
    "The number of replays of graphs of the same step at the time when these shapes last ran."


@dataclass(slots=True)
class _Row:
    """Eager steps of a captured size, without a replay of its graphs between them."""

    replays: int
    "Number of replays before the first of these steps."
    length: int = 0
    counts: bool = False


@dataclass(slots=True)
class _Seen:
    frames: tuple[CallSite, ...]
    recorded: bool
    captured: dict[Shapes, list[int]] = field(default_factory=dict)
    "Shapes -> the numbers of the graphs."
    eager: dict[Shapes, _Eager] = field(default_factory=dict)
    rows: dict[Shapes, _Row] = field(default_factory=dict)
    off: dict[Shapes, _Eager] = field(default_factory=dict)
    "Eager steps of captured sizes, whose graphs were turned off."


class Steps:
    def __init__(self, played: Played | None = None) -> None:
        """If `played` is not given, steps of captured sizes are not counted."""
        self._played = played
        self._seen: dict[Key, _Seen] = {}
        self.names: set[str] = set()
        "The first operations or functions of captured steps."
        self._left: set[Key] = set()

    def leave(self, keys: Collection[Key]) -> None:
        """Stop counting steps with these keys, because the operation or function that they identify runs several times
        in one step."""
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
        seen.rows.pop(step.shapes, None)
        self.names.update(name for name, _, _ in step.keys)
        self._seen.update(dict.fromkeys(step.keys, seen))

    def eager(
        self, keys: Sequence[Key], shapes: Shapes, recorded: bool, frames: Callable[[], Sequence[CallSite]]
    ) -> None:
        """Count a step that ran without a graph; `frames` returns the calls that led to it."""
        seen = self._of(keys)
        if seen is None:
            return
        if shapes in seen.captured:
            if self._played is not None and recorded == seen.recorded:
                self._without(self._played, seen, shapes, frames)
            return
        # An evaluation begins with the same operation as the captured training step, but autograd does not record it
        if seen.recorded and not recorded:
            return
        known = seen.eager.get(shapes)
        if known is None and len(seen.eager) < _MOST_SHAPES:
            known = seen.eager[shapes] = _Eager(_own(frames(), seen.frames))
        if known is not None:
            known.count += 1
            known.replays = self._replays(seen)
            if known.count == _ENOUGH:  # the first ones may have been a warm-up
                known.frames = _own(frames(), seen.frames)

    def _replays(self, seen: _Seen) -> int:
        return 0 if self._played is None else sum(map(self._played.replays, _graphs(seen)))

    def _is_beside_replays(self, seen: _Seen, eager: _Eager) -> bool:
        """Return whether the eager steps run among replays: a replay of the same step followed, or the eager steps have
        no loop of their own. In a loop of their own, the program checks or measures its graphs after it has used
        them."""
        stacks = [stack for graph in _graphs(seen) for stack in self._played.stacks(graph)] if self._played else []
        if not stacks or self._replays(seen) > eager.replays:
            return True
        return not is_in_loop(eager.frames) or any(same_loop(eager.frames, stack) for stack in stacks)

    def _without(self, played: Played, seen: _Seen, shapes: Shapes, frames: Callable[[], Sequence[CallSite]]) -> None:
        """Count an eager step of a captured size, in the loop that replayed, and after many such steps without a
        replay."""
        graphs = seen.captured[shapes]
        replays = sum(map(played.replays, graphs))
        row = seen.rows.get(shapes)
        if row is None or row.replays != replays:
            row = seen.rows[shapes] = _Row(replays)
        row.length += 1
        if replays and row.length == _ENOUGH:
            own = _own(frames(), seen.frames)
            row.counts = any(same_loop(own, stack) for graph in graphs for stack in played.stacks(graph))
            if row.counts:
                seen.off.setdefault(shapes, _Eager(own)).count += _ENOUGH
        elif row.counts:
            seen.off[shapes].count += 1

    def _of(self, keys: Sequence[Key]) -> _Seen | None:
        return next((self._seen[key] for key in keys if key in self._seen), None)

    def facts(self) -> list[dict[str, Any]]:
        """Return the facts of each step that ran eagerly at a size that was not captured."""
        found = []
        for seen in {id(one): one for one in self._seen.values()}.values():
            known = dict(seen.captured)  # copied, because another thread may capture meanwhile
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
                {
                    "place": most.frames[-1:] if most is not None else (),
                    "sizes": _by_size(sizes),
                    "captured": _by_size(captured),
                    "off": _by_size(off),
                    "off_at": [one.frames[-1] for one in seen.off.values() if one.frames][:1],
                }
            )
        return found


def _by_size(found: Mapping[int, Any]) -> dict[str, Any]:
    return {str(size): found[size] for size in sorted(found)}


def _graphs(seen: _Seen) -> list[int]:
    return [graph for graphs in list(seen.captured.values()) for graph in graphs]


def _own(frames: Sequence[CallSite], captured: Sequence[CallSite]) -> Stack:
    """Return the calls of an eager step without the innermost calls that the capture's stack also ends with."""
    shared = 0
    for one, other in zip(reversed(frames), reversed(captured), strict=False):
        if (one.path, one.function, one.line) != (other.path, other.function, other.line):
            break
        shared += 1
    return tuple(frames[: len(frames) - shared])


def _axes(captured: Collection[Shapes]) -> list[tuple[int, int]]:
    """Return the tensor dimensions in which the captures of one step differ; for a single capture, the first dimension
    of each tensor. The tensor with most dimensions comes first, since a bias has fewer dimensions than an input."""
    first = next(iter(captured))
    varying = sorted({axis for shapes in captured if _alike(shapes, first) for axis in _differing(shapes, first)})
    return varying or [(at, 0) for at in sorted(range(len(first)), key=lambda at: -len(first[at])) if first[at]]


def _axis_of_sizes(
    axes: Sequence[tuple[int, int]], captured: Collection[Shapes], eager: Collection[Shapes]
) -> Sequence[tuple[int, int]]:
    """Return the first of these dimensions in which a step without a graph differs from a captured one, else the first;
    there is no such dimension if there are no dimensions."""
    first = next(iter(captured))
    others = [shapes for shapes in eager if _size(shapes, captured, axes) is not None]
    varying = [(at, axis) for at, axis in axes if any(shapes[at][axis] != first[at][axis] for shapes in others)]
    return (varying or axes)[:1]


def _size(shapes: Shapes, captured: Collection[Shapes], axes: Sequence[tuple[int, int]]) -> int | None:
    """Return the size of an eager step if it differs from a captured step only in size, else None."""
    for known in captured:
        other = _differing(shapes, known) if _alike(shapes, known) else set()
        values = {(known[at][axis], shapes[at][axis]) for at, axis in other}
        if other and other <= set(axes) and len(values) == 1:
            return values.pop()[1]
    return None


def _differing(one: Shapes, other: Shapes) -> set[tuple[int, int]]:
    """Return the tensor dimensions in which two steps differ."""
    return {(at, axis) for at, shape in enumerate(one) for axis, size in enumerate(shape) if size != other[at][axis]}


def _alike(one: Shapes, other: Shapes) -> bool:
    return [len(shape) for shape in one] == [len(shape) for shape in other]
