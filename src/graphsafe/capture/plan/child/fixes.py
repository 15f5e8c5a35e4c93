"""The gain of mending each line to blame, alone and one after the other. The gain is computed from a step's operations;
nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from graphsafe.capture.plan.child.cost import cheaper, with_breaks
from graphsafe.capture.plan.shared.regions import Region, merged
from graphsafe.report.model import CallSite

if TYPE_CHECKING:
    from graphsafe.capture.plan.child.search import Search

_MOST_OPERATIONS = 1000
"""Most operations of a step whose pieces are joined. In a larger step one piece is a small share, and joining takes
seconds."""


def fixes(search: Search, milliseconds: Callable[[float], float | None]) -> list[dict[str, Any]]:
    """Return the lines to blame, first those without which operations stay eager, the most gainful first. `coverage`:
    with this line mended and no other; `together`: with those before it too."""
    roots = {cause.line: cause for cause in reversed(search.causes) if not cause.derived}
    alone = {line: _coverage(search, {line}) for line in roots}
    needed = _needed(search)
    order = sorted(roots, key=lambda line: (line not in needed, -alone[line]))
    found = []
    for at, line in enumerate(order, 1):
        cause = roots[line]
        found.append(
            {
                "code": cause.code,
                "cause": asdict(search.told(cause)),
                "coverage": alone[line],
                "together": alone[line] if at == 1 else _coverage(search, set(order[:at])),
                "planned_ms": milliseconds(alone[line]),
            }
        )
    return found


def _needed(search: Search) -> set[CallSite]:
    """Return the lines to blame for breaks in which operations run."""
    found: set[CallSite] = set()
    for region, roots in search.parts:
        if not roots <= found and any(
            op.launches and op.visit is not None for op in with_breaks(search.bare, [region]).ops
        ):
            found |= roots
    return found


def _coverage(search: Search, mended: Set[CallSite]) -> float:
    """Return the coverage of the plan in which only the other lines are to blame."""
    regions = merged([region for region, roots in search.parts if not roots <= mended])
    if regions not in search.coverages:
        search.coverages[regions] = _joined(search, regions)
    return search.coverages[regions]


def _joined(search: Search, regions: tuple[Region, ...]) -> float:
    """Return the coverage with these breaks and what it costs less to make eager too."""
    log = with_breaks(search.bare, regions)
    total = sum(op.launches for op in log.ops)
    while total <= _MOST_OPERATIONS:
        joined = cheaper(log, regions)
        if not joined:
            break
        regions = merged([*regions, *joined])
        log = with_breaks(log, regions)
    return sum(op.launches and op.visit is None for op in log.ops) / total if total else 0.0
