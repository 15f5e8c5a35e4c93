"""Limits of the report that follow from the answers of the step child, the reference child and the capture child."""

from __future__ import annotations

from collections.abc import Iterator

from graphsafe.capture.answers.probes import Reference, StepMemory
from graphsafe.capture.shared.answers import Answers
from graphsafe.report.model import Limit
from graphsafe.report.probes.horizon import Horizon
from graphsafe.report.text import listed

_FILE_READ = "each step reads this file, or asks whether it is there; a graph keeps what this decided at capture"
_HOST_COUNT = "steps increment these on the host, whatever the inputs; replays do not"


def limits_of(answers: Answers, is_captured: bool, called: str, device: str) -> Iterator[Limit]:
    """Yield the limits of a target. `called` is the target's name in the report. `is_captured` says whether the capture
    passed."""
    reference = answers[Reference]
    if is_captured and reference.host_counts:
        yield Limit("not-compared", listed(reference.host_counts, most=3), _HOST_COUNT)
    if is_captured and reference.refused is not None:
        why = f"the step cannot be run eagerly as if it were captured: {reference.refused}"
        yield Limit("capture-path", called, why)
    if reference.first_step_failed is not None:
        why = f"no first step on new inputs could be compared: {reference.first_step_failed}"
        yield Limit("first-step", called, why)
    for why in reference.not_put_back:
        yield Limit("state", called, f"{why}, so further eager runs began without it")
    held = answers[StepMemory]
    if held.failed is not None and (is_captured or held.step is None):
        yield Limit("memory", device, f"the step cannot be run once more: {held.failed}")
    ahead = answers[Horizon]
    for path in ahead.files_read or ():
        yield Limit("not-varied", path, _FILE_READ)
    if ahead.status == "pass" and ahead.reason:
        yield Limit("horizon", called, ahead.reason)
