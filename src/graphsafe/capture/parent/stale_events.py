"""Events after which replays differ from eager steps, and the memory that moved since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphsafe.capture.answers.probes import Fired
from graphsafe.report.model import CallSite
from graphsafe.report.probes.replay import differing

Frames = Sequence[CallSite]


def stale_events(events: Sequence[Fired], entry: Frames) -> Iterator[tuple[Frames, dict[str, Any]]]:
    """Yield the frames and the words of each finding. `entry` is used if an event is not the user's own code.

    Nothing is said of an event that moved nothing and after which only results differ that differed before it.
    """
    before: set[str] = set()
    for event in events:
        wrong = [check.name for check in differing(event.checks)]
        moved = event.moved
        known = before.issuperset(wrong) and not moved
        before.update(wrong)
        if known or not wrong:
            continue
        lies = f"{', '.join(f'`{path}`' for path in moved[:3])} {'lies' if len(moved) == 1 else 'lie'} elsewhere"
        yield (
            [event.place] if event.place else entry,
            {
                "expr": f"`{event.name}`",
                "value": lies if moved else f"`{wrong[0]}` is not what an eager step gives",
                "data": {"event": event.name, "moved": list(moved), "different": wrong},
            },
        )
