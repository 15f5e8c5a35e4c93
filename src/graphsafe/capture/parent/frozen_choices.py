"""Launch choices that stay right and become slow after an event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphsafe.capture.answers.probes import LaunchChoice
from graphsafe.report.kernel_names import readable
from graphsafe.report.model import CallSite

Frames = Sequence[CallSite]
_UNTIMED = "; the values are right, and the simulated device cannot tell the time"


def frozen_choices(choices: Sequence[LaunchChoice], entry: Frames) -> Iterator[tuple[Frames, dict[str, Any]]]:
    """Yield the frames and the words of each finding. `entry` is used if the line of the launch is not known."""
    for choice in choices:
        one, timed = choice.difference, choice.frozen_ms is not None
        cause = choice.causes[0] if choice.causes else None
        before, after = (one.before, one.after) if cause is None else (cause.before, cause.after)
        value = f"{readable(str(before))} at the capture and {readable(str(after))} after `{choice.event}`"
        if choice.frozen_ms is not None and choice.fresh_ms is not None:
            value += (
                f", where a replay takes {choice.frozen_ms:.3g} ms, and one of a new capture {choice.fresh_ms:.3g} ms"
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
