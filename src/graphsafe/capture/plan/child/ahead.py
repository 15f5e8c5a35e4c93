"""Looks at later steps with breaks in place: whether the code between them goes on to do what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphsafe.capture.child.probes.horizon import look_ahead
from graphsafe.capture.plan.child.call import Call, Handed
from graphsafe.capture.plan.child.rewrite import cut
from graphsafe.capture.plan.shared.passed import beyond
from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.places import shown

if TYPE_CHECKING:
    from graphsafe.capture.child.session import Session
    from graphsafe.capture.plan.shared.regions import Region


def departure(session: Session, regions: Sequence[Region], handed: Mapping[int, Handed]) -> str | None:
    """Return how a later step departs from the first one between the breaks, or None. It changes the state."""
    apart = beyond(regions)
    calls: dict[Any, Call] = {}
    running: list[int] = []

    def visit(number: int, eager: Callable[[], Any], outputs: tuple[str, ...]) -> Any:
        if running:
            return eager()
        running.append(number)
        frames, _ = user_frames()
        call = Call(number, eager, outputs, handed.get(number, Handed()), session, frames, apart[number])
        calls.pop((number, frames), None)
        try:
            return call.run(list(calls.values()))
        finally:
            running.clear()
            calls[number, frames] = call

    with cut(regions, visit):
        ahead = look_ahead(session, lambda: bool(running))
    if ahead.departure is None:
        return None
    frames = ahead.departure.frames
    return ahead.text() + (f" ({shown(frames[-1].path)}:{frames[-1].line})" if frames else "")
