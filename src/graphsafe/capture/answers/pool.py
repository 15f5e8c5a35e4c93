"""Answers of the child that captures several buckets in one pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphsafe.report.pool import Different, Overwritten, Padded
from graphsafe.report.probes.memory import Held
from graphsafe.report.probes.probe import Error

Axes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Capturing:
    """The bucket that is being built or captured; None when all are captured."""

    axes: Axes | None = None


@dataclass(frozen=True, slots=True)
class CapturedBucket:
    """A captured bucket, and the growth of the pool by its capture."""

    axes: Axes
    pool_bytes: int | None
    held: Held | None
    "The bucket's memory in the pool; None if no pool can be read."


@dataclass(frozen=True, slots=True)
class CapturedBuckets:
    """The buckets that were captured so far."""

    buckets: tuple[CapturedBucket, ...] = ()
    pool_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FailedBucket:
    """A bucket that cannot be captured after others."""

    axes: Axes
    first_error: Error


@dataclass(frozen=True, slots=True)
class Together:
    """The memory that all buckets have in common."""

    peak_bytes: int | None = None
    shared: tuple[str, ...] = ()
    "Tensors whose memory several buckets change."


@dataclass(frozen=True, slots=True)
class Mixed:
    """Replays in mixed order."""

    replays: int = 0
    different: tuple[Different, ...] = ()
    overwritten: tuple[Overwritten, ...] = ()
    depends_on_order: tuple[str, ...] = ()
    refused: str | None = None
    "The reason why eager steps in the same order fail."


@dataclass(frozen=True, slots=True)
class Padding:
    """All padded replays so far. The padding is filled in several ways, for instance with zeros. The child sends this
    object before the first way and after each way."""

    entries: tuple[Padded, ...] | None = None
