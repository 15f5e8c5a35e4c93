"""Runs later steps with breaks in place, to check that the code between the breaks still does the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphsafe.capture.child.probes.horizon import look_ahead
from graphsafe.capture.child.session import Session
from graphsafe.capture.plan.child.call import Call, GuardBroken, Handed
from graphsafe.capture.plan.child.rewrite import cut
from graphsafe.capture.plan.child.search import Search
from graphsafe.capture.plan.shared.passed import beyond
from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.places import shown


def departure(session: Session, search: Search) -> str | None:
    """Return the first difference between a later step and the first step in the code between breaks, or None. It
    changes the state. Raises GuardBroken if, before a departure is found, a break gives captured code another number or
    size."""
    steps = _Steps(session, search)
    with cut(search.regions, steps.visit):
        ahead = look_ahead(session, lambda: steps.inside)
    if steps.broken is not None:
        raise steps.broken
    if ahead.departure is None:
        return None
    frames = ahead.departure.frames
    return ahead.text() + (f" ({shown(frames[-1].path)}:{frames[-1].line})" if frames else "")


class _Steps:
    def __init__(self, session: Session, search: Search) -> None:
        self._session = session
        self._handed = search.handed
        self._beyond = beyond(search.regions)
        self._number = len(search.log.visits)
        "Number of visits of breaks in a step."
        self._first: list[Call] = []
        "The visits of the first step."
        self._calls: list[Call] = []
        "The visits of the running step so far."
        self.inside = False
        self.broken: GuardBroken | None = None

    def visit(self, number: int, eager: Callable[[], Any], outputs: tuple[str, ...]) -> Any:
        if self.inside:
            return eager()
        if len(self._calls) == self._number:
            self._calls = []
        handed, frames = self._handed.get(number, Handed()), user_frames()[0]
        call = Call(number, eager, outputs, handed, self._session, frames, self._beyond[number])
        self.inside = True
        try:
            result = call.run(self._calls)
        finally:
            self.inside = False
        self._calls.append(call)
        self._compare(call, len(self._calls) - 1)
        return result

    def _compare(self, call: Call, at: int) -> None:
        if len(self._first) < self._number:
            self._first.append(call)
        elif self.broken is None:
            try:
                self._first[at].compare(call)
            except GuardBroken as error:
                self.broken = error
                raise
