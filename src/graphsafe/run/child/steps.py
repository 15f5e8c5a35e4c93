"""Finds steps that ran without a graph although their process has captured the same step at other sizes.

On the simulated device a step is identified by the first operation of its capture, on a GPU by the function that was
captured (`calls.py`); either with the shapes that it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsafe.report.model import CallSite

Key = tuple[str, str, int]
"""The first operation or the function, by name; then a line (path and number), or nothing and a number: of the storage
that the operation reads, or of the step."""
Shapes = tuple[tuple[int, ...], ...]
_MOST_SHAPES = 10_000


@dataclass(frozen=True, slots=True)
class Step:
    keys: tuple[Key, ...]
    "Each of these alone distinguishes the step from others."
    shapes: Shapes
    frames: tuple[CallSite, ...]
    "The user's calls that lead to it, outermost first."
    recorded: bool = False
    "Whether autograd records it."


@dataclass(slots=True)
class _Eager:
    place: CallSite | None
    "The place where the first step of these shapes was called."
    count: int = 0


@dataclass(slots=True)
class _Seen:
    frames: tuple[CallSite, ...]
    recorded: bool
    captured: dict[Shapes, list[int]] = field(default_factory=dict)
    "Shapes -> the numbers of the graphs."
    eager: dict[Shapes, _Eager] = field(default_factory=dict)


class Steps:
    def __init__(self) -> None:
        self._seen: dict[Key, _Seen] = {}
        self.names: set[str] = set()
        "The first operations or functions of captured steps."

    def forget(self) -> None:
        self._seen.clear()
        self.names.clear()

    def captured(self, step: Step | None, graph: int) -> None:
        if step is None:
            return
        seen = self._of(step.keys) or _Seen(step.frames, step.recorded)
        seen.captured.setdefault(step.shapes, []).append(graph)
        self.names.update(name for name, _, _ in step.keys)
        self._seen.update(dict.fromkeys(step.keys, seen))

    def eager(
        self, keys: Sequence[Key], shapes: Shapes, recorded: bool, frames: Callable[[], Sequence[CallSite]]
    ) -> None:
        """Count a step that ran without a graph; `frames` returns the calls that led to it."""
        seen = self._of(keys)
        if seen is None or shapes in seen.captured:
            return
        if seen.recorded and not recorded:  # an evaluation begins like the training step that was captured
            return
        known = seen.eager.get(shapes)
        if known is None and len(seen.eager) < _MOST_SHAPES:
            known = seen.eager[shapes] = _Eager(_caller(frames(), seen.frames))
        if known is not None:
            known.count += 1

    def _of(self, keys: Sequence[Key]) -> _Seen | None:
        return next((self._seen[key] for key in keys if key in self._seen), None)

    def facts(self) -> list[dict[str, Any]]:
        """Return the facts of each step that ran eagerly, at sizes like the captured ones but not captured itself."""
        found = []
        for seen in {id(one): one for one in self._seen.values()}.values():
            sizes: dict[int, int] = {}
            place: CallSite | None = None
            known = dict(seen.captured)  # another thread may capture
            axes = _axes(known)
            for shapes, eager in list(seen.eager.items()):
                size = _size(shapes, known, axes) if shapes not in known else None
                if size is not None:
                    sizes[size] = sizes.get(size, 0) + eager.count
                    place = place or eager.place
            captured: dict[int, list[int]] = {}
            for shapes, graphs in known.items():
                for at, axis in axes[:1]:
                    captured.setdefault(shapes[at][axis], []).extend(graphs)
            found.append(
                {
                    "place": [] if place is None else [_site(place)],
                    "sizes": {str(size): sizes[size] for size in sorted(sizes)},
                    "captured": {str(size): captured[size] for size in sorted(captured)},
                }
            )
        return found


def _caller(frames: Sequence[CallSite], captured: Sequence[CallSite]) -> CallSite | None:
    """Return the line of an eager step that makes the same call as the capture: the last frame that the two stacks do
    not share."""
    shared = 0
    for one, other in zip(reversed(frames), reversed(captured), strict=False):
        if (one.path, one.function, one.line) != (other.path, other.function, other.line):
            break
        shared += 1
    rest = frames[: len(frames) - shared]
    return rest[-1] if rest else None


def _axes(captured: Collection[Shapes]) -> list[tuple[int, int]]:
    """Return the tensors and dimensions by which captures of one step differ; of a single capture the first
    dimensions."""
    first = next(iter(captured))
    places = [(at, axis) for at, shape in enumerate(first) for axis in range(len(shape))]
    same = [shapes for shapes in captured if _alike(shapes, first)]
    varying = [(at, axis) for at, axis in places if any(shapes[at][axis] != first[at][axis] for shapes in same)]
    return varying or [(at, axis) for at, axis in places if axis == 0]


def _size(shapes: Shapes, captured: Collection[Shapes], axes: Sequence[tuple[int, int]]) -> int | None:
    """Return the size of an eager step that differs from a captured one in nothing else; otherwise None."""
    for known in captured:
        if not _alike(shapes, known):
            continue
        places = [(at, axis) for at, shape in enumerate(shapes) for axis in range(len(shape))]
        other = [(at, axis) for at, axis in places if shapes[at][axis] != known[at][axis]]
        values = {(known[at][axis], shapes[at][axis]) for at, axis in other}
        if other and set(other) <= set(axes) and len(values) == 1:
            return values.pop()[1]
    return None


def _alike(one: Shapes, other: Shapes) -> bool:
    return [len(shape) for shape in one] == [len(shape) for shape in other]


def _site(place: CallSite) -> Mapping[str, Any]:
    return {"path": place.path, "line": place.line, "function": place.function}
