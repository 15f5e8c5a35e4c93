"""The sizes at which a step was captured or ran without a graph, as rows of a bar chart. The data come from findings of
GS616."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphsafe.report.ledger.model import Ledger, Process
from graphsafe.report.model import Finding
from graphsafe.report.text import count, listed

LONGEST = 24
_MOST = 24
"At most this many rows are shown: the sizes that ran most often."


def silent(ledger: Ledger, process: Process) -> list[Finding]:
    """Return the findings about steps of a process that ran without a graph."""
    return [one for one in ledger.findings if one.code == "GS616" and one.data.get("process") == process.name]


def rows(data: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    """Return a row for each size, the smallest first: the size, a bar whose length shows how often the size ran, and
    this in words."""
    eager = {int(size): int(times) for size, times in data["sizes"].items()}
    replays = {int(size): int(times) for size, times in data.get("replays", {}).items()}
    times = {**dict.fromkeys(data["captured_sizes"], 0), **replays, **eager}
    shown = sorted(sorted(times, key=lambda size: -times[size])[:_MOST])
    most = max(times.values(), default=0)
    found = []
    for size in shown:
        known = f"captured, {count(replays.get(size, 0), 'replay')}" if replays else "captured"
        without = f"no graph, {count(eager.get(size, 0), 'step')}"
        here = [known] * (size in data["captured_sizes"]) + [without] * (size in eager)
        found.append((size, "#" * -(-LONGEST * times[size] // max(most, 1)), "; ".join(here)))
    return found


def left_out(data: Mapping[str, Any]) -> int:
    """Return the number of sizes that have no row."""
    return max(len({*map(int, data["sizes"]), *data["captured_sizes"]}) - _MOST, 0)


def advice(sizes: Sequence[int] | None, waste: float | None) -> str:
    """Say which further sizes would cover all steps, and how much work padding would add. Return "" if this is
    unknown."""
    if sizes is None or waste is None:
        return ""
    padding = f"; padding would be {100 * waste:.2g} % of their work" if waste else ", without padding"
    if not sizes:
        return f"Padded to captured sizes, they need no further graph{padding}."
    return f"With {listed(map(str, sizes))} captured too, graphs would cover them all{padding}."
