"""Judges how the buckets of a device share one pool, from measured numbers alone, and describes the pool in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphsafe.report.model import Verdict
from graphsafe.report.probes.memory import Held
from graphsafe.report.probes.probe import ProbeStatus
from graphsafe.report.reading import read
from graphsafe.report.text import bucket_name, bytes_text, count, listed

Axes = Mapping[str, Any]
Padding = Literal["clean", "unless filled", "nan only", "always"]


@dataclass(frozen=True, slots=True)
class PoolBucket:
    """A bucket in the pool."""

    axes: Axes
    pool_bytes: int | None
    "The number of bytes by which the pool grew when the bucket was captured."
    held: Held | None
    "The memory that this capture took from the pool."
    alone_bytes: int | None
    "The size in bytes that the bucket's graph has if it is captured in a pool of its own."


@dataclass(frozen=True, slots=True)
class Different:
    """A bucket whose replay gives other results if another bucket was replayed before it."""

    axes: Axes
    after: Axes
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A bucket whose outputs another bucket's replay changes."""

    axes: Axes
    by: Axes
    outputs: tuple[str, ...]
    static: bool
    "Whether the memory of one of these outputs was allocated before the capture."


@dataclass(frozen=True, slots=True)
class Padded:
    """Replays with fewer requests than were captured. The remaining rows, the padding, are filled in several ways."""

    axes: Axes
    live: int
    inputs: tuple[str, ...]
    follows: tuple[str, ...] | None
    "The outputs that belong to live requests but depend on the padding. It is None if this is unknown."
    wrong: Mapping[str, tuple[str, ...] | None]
    "A way of filling the rows -> the outputs that differ from an eager step on the live requests alone."
    nan: tuple[str, ...] | None
    "The outputs that become NaN if the padding rows are NaN."
    error: str | None


@dataclass(frozen=True, slots=True)
class NotCaptured:
    """A bucket that could not be captured after the other buckets."""

    axes: Axes
    message: str


@dataclass(frozen=True, slots=True)
class Pool:
    """All ready buckets of a device, captured in one pool, the largest first, and replayed in mixed order.

    The fields are the keys of `pool` in a report.
    """

    status: ProbeStatus
    reason: str | None
    seconds: float
    buckets: tuple[PoolBucket, ...]
    "The buckets in the order of their captures."
    pool_bytes: int | None
    saved_bytes: int | None
    "The number of bytes that the shared pool saves, compared with a separate pool for each bucket."
    peak_bytes: int | None
    replays: int
    different: tuple[Different, ...]
    overwritten: tuple[Overwritten, ...]
    depends_on_order: tuple[str, ...]
    shared: tuple[str, ...]
    padding: tuple[Padded, ...] | None
    failed: tuple[NotCaptured, ...]

    @staticmethod
    def of(data: Mapping[str, Any]) -> Pool:
        return read(Pool, data)


def pool_verdict(pool: Pool | None) -> Verdict:
    """Return the pool's part of the verdict. A pool that could not be captured at all changes nothing."""
    status = "pass" if pool is None else pool.status
    return "not-ready" if status == "fail" else "inconclusive" if status in ("crashed", "timeout") else "ready"


def padding_of(entry: Padded) -> Padding | None:
    """Return how the results of live requests depend on the padding rows, or None if this is unknown."""
    if entry.follows is None:
        return None
    if entry.error:
        return None if entry.follows else "unless filled"
    if not entry.follows:
        return "nan only" if entry.nan else "clean"
    wrong = [entry.wrong.get(fill) for fill in ("zeros", "dummy")]
    if () in wrong:
        return "unless filled"
    return None if None in wrong else "always"


def pool_texts(pool: Pool) -> list[str]:
    """Return one line about memory and order, and one line for each fault."""
    if pool.status == "skipped":
        return [f"pool: not shared, {pool.reason}"]
    parts = [f"{count(len(pool.buckets), 'bucket')}, largest first"]
    saved = " less than in pools of their own"
    sizes = (("", pool.pool_bytes, ""), ("", pool.saved_bytes, saved), ("peak ", pool.peak_bytes, ""))
    parts += [f"{before}{bytes_text(size)}{after}" for before, size, after in sizes if size is not None]
    if pool.replays:
        parts.append(f"{count(pool.replays, 'replay')} in mixed order")
    lines = [f"pool: {pool.status}, {', '.join(parts)}"]
    if pool.reason:
        lines.append(f"  {pool.reason}")
    for bucket in pool.buckets:
        if bucket.pool_bytes is not None:
            alone = "" if bucket.alone_bytes is None else f", by itself {bytes_text(bucket.alone_bytes)}"
            held = bucket.held
            uses = f", uses {bytes_text(held.bytes)} and keeps {bytes_text(held.kept)}" if held else ""
            lines.append(f"  {bucket_name(bucket.axes)}: {bytes_text(bucket.pool_bytes)} more{alone}{uses}")
    for each in pool.different:
        lines.append(f"  {bucket_name(each.axes)} after {bucket_name(each.after)}: {listed(each.outputs)} differ")
    if any(not one.static for one in pool.overwritten):
        lines.append("  outputs last until the next replay of any bucket: their memory is shared")
    for lost in [one for one in pool.overwritten if one.static]:
        name, other = bucket_name(lost.axes), bucket_name(lost.by)
        lines.append(f"  a replay of {other} overwrites {listed(lost.outputs)} of {name}")
    for entry in pool.padding or ():
        found = padding_of(entry)
        if found != "clean":
            lines.append(f"  {bucket_name(entry.axes)} with {entry.live} live: {_PADDED[found]}")
    return lines


_PADDED: Mapping[Padding | None, str] = {
    "always": "their results depend on the padding rows, however these are filled",
    "unless filled": "their results depend on the padding rows, unless these are filled",
    "nan only": "NaN in the padding rows reaches their results",
    None: "it is not known whether their results depend on the padding rows",
}
