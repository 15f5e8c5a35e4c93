"""Finds the lines of a refresh that bind inputs to other memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from graphsafe.capture.child.lines.changes import ChangesSeen
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import defined_at, reachable_state
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.shared.replaced import tracing
from graphsafe.report.model import CallSite


def lines_that_rebind(session: Session, paths: Sequence[str], k: int) -> list[tuple[CallSite, ...]]:
    """Call the refresh once more. For each tensor, return the frames of the line that gives it other memory. If no line
    is found for a tensor, return the place where the refresh is defined."""
    seen = ChangesSeen(reachable_state(session.subject), paths)
    with suppress(TargetError), tracing(seen.trace):
        session.put_inputs(k)
    refresh = defined_at(session.subject.refresh)
    written = () if refresh is None else (refresh,)
    return [seen.line_of(path) or written for path in paths]
