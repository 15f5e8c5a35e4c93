"""Finds the numbers on the host that steps still change after many steps."""

from __future__ import annotations

from graphsafe.capture.child.state import ReachableState


def still_changing(early: ReachableState, before: ReachableState, after: ReachableState) -> tuple[str, ...]:
    """Return the paths of numbers that the last step changed, and that also differ from their value before all further
    steps. `before` and `after` are the state before and after the last step. Numbers that only the refresh reaches are
    left out."""
    return tuple(
        path
        for path, value in after.values.items()
        if type(value) in (int, float)
        and not path.startswith("refresh")
        and type(before.values.get(path)) is type(value)
        and value != before.values[path]
        and value != early.values.get(path, value)
    )
