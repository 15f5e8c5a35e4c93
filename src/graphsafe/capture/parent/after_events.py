"""Findings about events. After an event, replays may differ from eager steps because the event has moved memory that
the replays use. Or the replays stay right, but the launch choices of the capture have become slow."""

from __future__ import annotations

from collections.abc import Sequence

from graphsafe.capture.answers.probes import Fired, LaunchChoice
from graphsafe.capture.parent.finding_table import FindingTable
from graphsafe.report.kernel_names import readable
from graphsafe.report.probes.replay import differing

_UNTIMED = "; the values are right, but the simulated device cannot measure times"


def add_frozen_choices(table: FindingTable, choices: Sequence[LaunchChoice]) -> None:
    for choice in choices:
        one, timed = choice.difference, choice.frozen_ms is not None
        cause = choice.causes[0] if choice.causes else None
        before, after = (one.before, one.after) if cause is None else (cause.before, cause.after)
        value = f"{readable(str(before))} at the capture and {readable(str(after))} after `{choice.event}`"
        if choice.frozen_ms is not None and choice.fresh_ms is not None:
            value += (
                f", where a replay takes {choice.frozen_ms:.3g} ms, and a new capture's replay {choice.fresh_ms:.3g} ms"
            )
        table.add(
            "GS713",
            one.frames or table.entry,
            one.span,
            level="warning" if timed else "note",
            expr=f"the launch of {readable(one.op)}" if cause is None else f"`{cause.path}`",
            value=value if timed else value + _UNTIMED,
            data={
                "event": choice.event,
                "attribute": None if cause is None else cause.path,
                "launch": {"before": one.before, "after": one.after},
                "frozen_ms": choice.frozen_ms,
                "fresh_ms": choice.fresh_ms,
            },
        )


def add_stale_events(table: FindingTable, events: Sequence[Fired]) -> None:
    """Add a finding for each event after which replays differ. An event is left out if it moved nothing and every
    result that differs after the event already differed before. An event that happens several times is reported only
    once."""
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
        table.add(
            "GS712",
            [event.place] if event.place else table.entry,
            expr=f"`{event.name}`",
            value=lies if moved else f"`{wrong[0]}` differs from an eager step",
            data={"event": event.name, "moved": list(moved), "different": wrong},
            region="step",
        )
