"""Finds further sizes to capture for steps that ran without a graph, and the share of padding that remains."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

_LITTLE = 0.1
"If the share of padding is below this, no further graph is worthwhile."
_MOST = 8
"At most this many further sizes are proposed."
_MOST_TRIED = 64
"Further sizes are chosen from the most frequent sizes, at most this many."


def cover(eager: Mapping[int, int], captured: Collection[int]) -> tuple[list[int], float]:
    """Return a few further sizes to capture, so that every eager size can be padded to a captured one. Also return the
    share of padding that remains among all rows of the padded steps.

    `eager` maps each size to the number of its steps. The largest eager size comes first if no captured size covers it.
    The sizes that save the most padding follow.
    """
    largest = max(eager)
    chosen = [] if largest <= max(captured, default=0) else [largest]
    tried = sorted(sorted(eager, key=lambda size: -eager[size])[:_MOST_TRIED])
    while (waste := _waste(eager, [*captured, *chosen])) > _LITTLE and len(chosen) < _MOST:
        chosen.append(min(tried, key=lambda size: _waste(eager, [*captured, *chosen, size])))
    return sorted(chosen), round(waste, 4)


def _waste(eager: Mapping[int, int], sizes: Sequence[int]) -> float:
    ordered = sorted(sizes)
    padded = {size: ordered[bisect_left(ordered, size)] for size in eager}
    rows = sum(times * padded[size] for size, times in eager.items())
    return 1 - sum(times * size for size, times in eager.items()) / max(rows, 1)
