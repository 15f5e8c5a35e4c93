"""Findings about events. After an event, replays may differ from eager steps because the event has moved memory that
they use. Or the replays stay right, but the launch choices of the capture have become slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphsafe.capture.answers.probes import Fired, LaunchChoice
from graphsafe.report.kernel_names import readable
from graphsafe.report.model import CallSite
from graphsafe.report.probes.replay import differing

Frames = Sequence[CallSite]
_UNTIMED = "; the values are right, but the simulated device cannot measure times"


def frozen_choices(choices: Sequence[LaunchChoice], entry: Frames) -> Iterator[tuple[Frames, dict[str, Any]]]:
    """Yield the frames and the texts of each finding. `entry` is the finding's place if the line of the launch is not
    known."""
    for choice in choices:
        one, timed = choice.difference, choice.frozen_ms is not None
        cause = choice.causes[0] if choice.causes else None
        before, after = (one.before, one.after) if cause is None else (cause.before, cause.after)
        value = f"{readable(str(before))} at the capture and {readable(str(after))} after `{choice.event}`"
        if choice.frozen_ms is not None and choice.fresh_ms is not None:
            value += (
                f", where a replay takes {choice.frozen_ms:.3g} ms, and a new capture's replay {choice.fresh_ms:.3g} ms"
            )
        yield (
            one.frames or entry,
            {
                "span": one.span,
                "level": "warning" if timed else "note",
                "expr": f"the launch of {readable(one.op)}" if cause is None else f"`{cause.path}`",
                "value": value if timed else value + _UNTIMED,
                "data": {
                    "event": choice.event,
                    "attribute": None if cause is None else cause.path,
                    "launch": {"before": one.before, "after": one.after},
                    "frozen_ms": choice.frozen_ms,
                    "fresh_ms": choice.fresh_ms,
                },
            },
        )


def stale_events(events: Sequence[Fired], entry: Frames) -> Iterator[tuple[Frames, dict[str, Any]]]:
    """Yield the frames and the texts of each finding. `entry` is the finding's place if an event is not the user's own
    code. An event is left out if it moved nothing and every result that differs after the event already differed
    before. An event that happens several times is reported only once."""
    before: set[str] = set()
    told: set[str] = set()
    for event in events:
        wrong = [check.name for check in differing(event.checks)]
        moved = event.moved
        known = before.issuperset(wrong) and not moved
        before.update(wrong)
        if known or not wrong or event.name in told:
            continue
        told.add(event.name)
        lies = f"{', '.join(f'`{path}`' for path in moved[:3])} {'is' if len(moved) == 1 else 'are'} at another address"
        yield (
            [event.place] if event.place else entry,
            {
                "expr": f"`{event.name}`",
                "value": lies if moved else f"`{wrong[0]}` differs from an eager step",
                "data": {"event": event.name, "moved": list(moved), "different": wrong},
            },
        )
