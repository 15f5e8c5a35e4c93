"""Tells which rows of a tensor belong to which request, from its shapes in two buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.shared.axes import batch_axis

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Rows:
    dimension: int
    each: int
    "Number of rows per request in that dimension."

    def behind(self, live: int) -> slice:
        """Return the rows after those of `live` requests."""
        return slice(live * self.each, None)

    def of(self, live: int) -> slice:
        return slice(0, live * self.each)


def rows_by_name(ours: Shapes, theirs: Shapes, batch: int, other_batch: int) -> dict[str, Rows]:
    """Return the rows of tensors in which exactly one dimension grows with the number of requests."""
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
    """Return the smallest number of requests for which an engine would use this bucket: one more than the next smaller
    bucket takes. None if no row is then padding."""
    name = batch_axis(axes)
    if name is None:
        return None
    smaller = [other[name] for other in others if _beside(axes, other, name) and other[name] < axes[name]]
    live = max(smaller, default=0) + 1
    return live if live < axes[name] else None


def neighbour(axes: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the index of a bucket that differs from this one only in the number of requests, or None."""
    name = batch_axis(axes)
    if name is None:
        return None
    places = (at for at, other in enumerate(others) if _beside(axes, other, name) and other[name] != axes[name])
    return next(places, None)


def _beside(axes: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return {**axes, name: None} == {**other, name: None}
