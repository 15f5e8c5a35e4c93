"""Estimates, for each line to blame, what a fix of this line would gain: alone, and together with the fixes before it
in the list.

The gain is computed from a step's operations. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from graphsafe.capture.plan.child.causes import Cause
from graphsafe.capture.plan.child.cost import cheaper, with_breaks
from graphsafe.capture.plan.child.search import Search
from graphsafe.capture.plan.shared.regions import Region, merged
from graphsafe.capture.shared.places import location
from graphsafe.report.model import CallSite, Fix

_MOST_OPERATIONS = 1000
"""Cheaper, wider breaks are searched for only if a step has at most this many operations. In a larger step a piece is
only a small share of the work, and the search would take seconds."""


def fixes(search: Search, planned: float, milliseconds: Callable[[float], float | None]) -> tuple[Fix, ...]:
    """Return the lines to blame, the largest gain first. Lines that make work eager come before all others. `planned`
    is the plan's coverage."""
    roots: dict[CallSite, dict[CallSite, Cause]] = {}
    "Line of the target -> the causes on it, each by its line in the file whose statements are split."
    for cause in search.causes:
        if not cause.derived:
            roots.setdefault(search.with_original_lines(cause).line, {}).setdefault(cause.line, cause)
    nothing = _coverage(search, set())

    def coverage(lines: Iterable[CallSite]) -> float:
        found = _coverage(search, {part for line in lines for part in roots[line]})
        return found if found > nothing else planned

    alone = {line: coverage([line]) for line in roots}
    needed = _needed(search)
    order = sorted(roots, key=lambda line: (not needed & roots[line].keys(), -alone[line]))
    found = []
    for at, line in enumerate(order, 1):
        cause = next(iter(roots[line].values()))
        together = alone[line] if at == 1 else coverage(order[:at])
        found.append(Fix(cause.code, location(line, None), alone[line], together, milliseconds(alone[line])))
    return tuple(found)


def too_short(search: Search) -> int:
    """Return the number of operations that run eagerly only because a graph of their piece would cost more than it
    saves."""
    apart = with_breaks(search.bare, merged([region for region, _ in search.parts]))
    logs = (apart, search.log)
    could, can = (sum(op.visit is None for op in log.ops if op.launches) for log in logs)
    return max(could - can, 0)


def _needed(search: Search) -> set[CallSite]:
    """Return the lines to blame for breaks in which operations run."""
    found: set[CallSite] = set()
    for region, roots in search.parts:
        if any(op.launches and op.visit is not None for op in with_breaks(search.bare, [region]).ops):
            found |= roots
    return found


def _coverage(search: Search, mended: Set[CallSite]) -> float:
    """Return the coverage of the plan if the lines `mended` are fixed and only the other lines are to blame."""
    regions = merged([region for region, roots in search.parts if not roots <= mended])
    if regions not in search.coverages:
        search.coverages[regions] = _joined(search, regions)
    return search.coverages[regions]


def _joined(search: Search, regions: tuple[Region, ...]) -> float:
    """Return the coverage with these breaks, after they are widened wherever that costs less."""
    log = with_breaks(search.bare, regions)
    total = sum(op.launches for op in log.ops)
    while total <= _MOST_OPERATIONS:
        joined = cheaper(log, regions)
        if not joined:
            break
        regions = merged([*regions, *joined])
        log = with_breaks(log, regions)
    return sum(op.launches and op.visit is None for op in log.ops) / total if total else 0.0
