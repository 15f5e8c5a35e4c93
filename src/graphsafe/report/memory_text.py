"""Memory of a step and of its graph in words: how much, and which lines took it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphsafe.report.text import bytes_text, listed

Probe = Mapping[str, Any]

_MOST = 3
_UNKNOWN = "no known line"


def memory_text(probe: Probe) -> str:
    """The probe in one line."""
    keys = (("pool_bytes", "pool"), ("peak_bytes", "peak"))
    parts = [f"{name} {bytes_text(probe[key])}" for key, name in keys if probe.get(key) is not None]
    growth = probe.get("growth")
    if growth:
        grown = bytes_text(growth["bytes"]) if growth["bytes"] is not None else "not known"
        parts.append(f"growth in {growth['replays']} replays {grown}, {growth['compared']} of them compared")
        if growth["slows"]:
            parts.append(f"steps slow down from {growth['first_step_ms']:.3g} to {growth['last_step_ms']:.3g} ms")
    return ", ".join(parts)


def held_texts(probe: Probe) -> list[str]:
    """A sentence on what a step takes, and one on what its graph uses; lines where they are not the same."""
    step, pool = probe.get("step"), probe.get("pool")
    texts = []
    if step and step["bytes"]:
        texts.append(f"a step takes {bytes_text(step['bytes'])} at once{_at(step, 'bytes')}")
    if pool and pool["bytes"]:
        whole = probe.get("pool_bytes")
        uses = "would use" if whole is None else "uses"
        of = "" if whole is None else f" of its {bytes_text(whole)}"
        same = step is not None and pool["bytes"] == step["bytes"]
        text = f"the graph {uses} {bytes_text(pool['bytes'])}{of} at once{'' if same else _at(pool, 'bytes')}"
        if pool["kept"]:
            text += f"; in use between replays: {bytes_text(pool['kept'])}{_at(pool, 'kept')}"
        texts.append(text)
    return texts


def held_rows(held: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each line: its share of the most held at once, what it took in all, how often, and what it keeps."""
    return [
        (
            _place(line),
            bytes_text(line["bytes"]),
            bytes_text(line["allocated"]),
            str(line["count"]),
            bytes_text(line["kept"]),
        )
        for line in held["lines"]
    ]


def largest_place(held: Mapping[str, Any]) -> str:
    return _place(held["lines"][0]) if held["lines"] else "no line"


def _at(held: Mapping[str, Any], key: str) -> str:
    """The lines with most of it."""
    lines = sorted((line for line in held["lines"] if line[key]), key=lambda line: -int(line[key]))
    return f" ({listed([f'{bytes_text(line[key])} at {_place(line)}' for line in lines], most=_MOST)})"


def _place(line: Mapping[str, Any]) -> str:
    return line["place"] or _UNKNOWN
