"""Judges the buckets of a device in one pool from their numbers alone, and describes them in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from graphsafe.report.model import Verdict
from graphsafe.report.text import bucket_name, bytes_text, count, listed

Pool = Mapping[str, Any]
Padding = Literal["clean", "unless filled", "nan only", "always"]


def pool_verdict(pool: Pool | None) -> Verdict:
    """Return the pool's part of the verdict. A pool that was not captured at all changes nothing."""
    status = "pass" if pool is None else pool["status"]
    return "not-ready" if status == "fail" else "inconclusive" if status in ("crashed", "timeout") else "ready"


def padding_of(entry: Mapping[str, Any]) -> Padding | None:
    """Return how live requests depend on the padding rows after them; None if it is unknown."""
    if entry["follows"] is None:
        return None
    if entry["error"]:
        return None if entry["follows"] else "unless filled"
    if not entry["follows"]:
        return "nan only" if entry["nan"] else "clean"
    wrong = [entry["wrong"][fill] for fill in ("zeros", "dummy")]
    if [] in wrong:
        return "unless filled"
    return None if None in wrong else "always"


def pool_texts(pool: Pool) -> list[str]:
    """Return one line on memory and order, and one for each fault."""
    if pool["status"] == "skipped":
        return [f"pool: not shared, {pool['reason']}"]
    parts = [f"{count(len(pool['buckets']), 'bucket')}, largest first"]
    if pool["pool_bytes"] is not None:
        parts.append(bytes_text(pool["pool_bytes"]))
    if pool["saved_bytes"] is not None:
        parts.append(f"{bytes_text(pool['saved_bytes'])} less than in pools of their own")
    if pool["peak_bytes"] is not None:
        parts.append(f"peak {bytes_text(pool['peak_bytes'])}")
    if pool["replays"]:
        parts.append(f"{count(pool['replays'], 'replay')} in mixed order")
    lines = [f"pool: {pool['status']}, {', '.join(parts)}"]
    if pool["reason"]:
        lines.append(f"  {pool['reason']}")
    for bucket in pool["buckets"]:
        if bucket["pool_bytes"] is not None:
            alone = "" if bucket["alone_bytes"] is None else f", by itself {bytes_text(bucket['alone_bytes'])}"
            held = bucket["held"]
            uses = f", uses {bytes_text(held['bytes'])} and keeps {bytes_text(held['kept'])}" if held else ""
            lines.append(f"  {bucket_name(bucket['axes'])}: {bytes_text(bucket['pool_bytes'])} more{alone}{uses}")
    for each in pool["different"]:
        lines.append(
            f"  {bucket_name(each['axes'])} after {bucket_name(each['after'])}: {listed(each['outputs'])} differ"
        )
    if any(not each["static"] for each in pool["overwritten"]):
        lines.append("  outputs last until the next replay of any bucket: their memory is shared")
    for each in [one for one in pool["overwritten"] if one["static"]]:
        name, other = bucket_name(each["axes"]), bucket_name(each["by"])
        lines.append(f"  a replay of {other} overwrites {listed(each['outputs'])} of {name}")
    for entry in pool["padding"] or ():
        found = padding_of(entry)
        if found != "clean":
            lines.append(f"  {bucket_name(entry['axes'])} with {entry['live']} live: {_PADDED[found]}")
    return lines


_PADDED: Mapping[Padding | None, str] = {
    "always": "their results depend on the padding rows, whatever those are filled with",
    "unless filled": "their results depend on the padding rows, unless those are filled",
    "nan only": "NaN in the padding rows reaches their results",
    None: "it is not known whether their results depend on the padding rows",
}
