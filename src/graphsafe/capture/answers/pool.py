"""Answers of the child that captures several buckets in one pool."""

from __future__ import annotations

from dataclasses import dataclass

from graphsafe.report.pool import Axes, Different, Overwritten, Padded, PoolBucket
from graphsafe.report.probes.probe import Error


@dataclass(frozen=True, slots=True)
class Capturing:
    """The bucket that is being built or captured; None after the last capture."""

    axes: Axes | None = None


@dataclass(frozen=True, slots=True)
class CapturedBuckets:
    """The buckets that have been captured so far. The parent adds `alone_bytes`."""

    buckets: tuple[PoolBucket, ...] = ()
    pool_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FailedBucket:
    """A bucket that could not be captured in the pool of earlier buckets."""

    axes: Axes
    first_error: Error


@dataclass(frozen=True, slots=True)
class Together:
    """The memory of all buckets together."""

    peak_bytes: int | None = None
    shared: tuple[str, ...] = ()
    "Tensors that several buckets change."


@dataclass(frozen=True, slots=True)
class Mixed:
    """Replays of all buckets in mixed order."""

    replays: int = 0
    different: tuple[Different, ...] = ()
    overwritten: tuple[Overwritten, ...] = ()
    depends_on_order: tuple[str, ...] = ()
    refused: str | None = None
    "The reason why eager steps in the same order fail."


@dataclass(frozen=True, slots=True)
class Padding:
    """All padded replays so far. The padding is filled in several ways, for instance with zeros. The child sends this
    answer before it tries the first way, and again after each way."""

    entries: tuple[Padded, ...] | None = None
