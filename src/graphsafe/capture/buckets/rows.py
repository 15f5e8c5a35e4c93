"""Which rows of a tensor belong to which request, told from the shapes that it has in two buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.buckets.axes import batch_axis

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Rows:
    dimension: int
    each: int
    "So many of the dimension belong to one request."

    def behind(self, live: int) -> slice:
        """The rows behind so many requests."""
        return slice(live * self.each, None)

    def of(self, live: int) -> slice:
        return slice(0, live * self.each)


def rows_by_name(ours: Shapes, theirs: Shapes, batch: int, other_batch: int) -> dict[str, Rows]:
    """Of tensors in which one dimension, and no other, grows with the number of requests."""
    found = {}
    for name, shape in ours.items():
        other = theirs.get(name)
        if other is None or len(other) != len(shape):
            continue
        differing = [at for at, (one, two) in enumerate(zip(shape, other, strict=True)) if one != two]
        if len(differing) != 1 or shape[differing[0]] % batch:
            continue
        each = shape[differing[0]] // batch
        if each and other[differing[0]] == each * other_batch:
            found[name] = Rows(differing[0], each)
    return found


def live_requests(axes: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> int | None:
    """With how few requests an engine would use this bucket: one more than the next smaller bucket takes. None where
    there is nothing to pad then."""
    name = batch_axis(axes)
    if name is None:
        return None
    smaller = [other[name] for other in others if _beside(axes, other, name) and other[name] < axes[name]]
    live = max(smaller, default=0) + 1
    return live if live < axes[name] else None


def neighbour(axes: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> int | None:
    """The place of a bucket that differs from this one in the number of requests alone."""
    name = batch_axis(axes)
    if name is None:
        return None
    places = (at for at, other in enumerate(others) if _beside(axes, other, name) and other[name] != axes[name])
    return next(places, None)


def _beside(axes: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return {**axes, name: None} == {**other, name: None}
