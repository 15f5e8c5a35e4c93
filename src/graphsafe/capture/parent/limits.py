"""Makes the report's limits from the answers of the step child, the reference child and the capture child. Also makes
the limits that say why a verdict is inconclusive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphsafe.capture.answers.probes import Reference, StepMemory
from graphsafe.capture.parent.probes import DeviceAnswers
from graphsafe.capture.request import BAD_REQUEST, INTERNAL
from graphsafe.capture.shared.answers import Answers
from graphsafe.report.model import Limit
from graphsafe.report.probes.horizon import USUAL_STEPS, Horizon
from graphsafe.report.probes.state import State
from graphsafe.report.text import count, first_line, listed
from graphsafe.report.verdict import judge

_FILE_READ = "each step reads this file, or checks whether it exists; a graph keeps the decision of the capture"
_HOST_COUNT = "steps increment these on the host, whatever the inputs; replays do not"
_NOT_ALL_VALUES = "and there was no time for all values that counters reach"
_LATER_EFFECT = "a later effect of host state would not be seen"
_NAMED = {"simulated": "cannot predict", "not-varied": "could not be varied"}
"Kind of a limit -> words that occur in each reason for an inconclusive verdict about the same subject."


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
        yield Limit("state", called, f"{why}; further eager runs began without restoring it")
    held = answers[StepMemory]
    if held.failed is not None and (is_captured or held.step is None):
        yield Limit("memory", device, f"the step cannot be run once more: {held.failed}")
    ahead = answers[Horizon]
    for path in ahead.files_read or ():
        yield Limit("not-varied", path, _FILE_READ)
    if ahead.status == "pass" and ahead.reason:
        yield Limit("horizon", called, ahead.reason)
    elif is_captured and (changing := [*ahead.changing, *_iterators(answers)]) and ahead.steps is not None:
        # If a further step took another path, `ahead.steps` counts only the steps before it.
        after = f"after {count(ahead.steps, 'further step')}, " if ahead.status == "pass" else "in further steps, "
        names, cut = listed(changing, most=3), f", {_NOT_ALL_VALUES}" if ahead.is_cut else ""
        yield Limit("horizon", called, f"{after}steps still change {names}{cut}; {_LATER_EFFECT}")
    elif ahead.status == "pass" and ahead.steps is not None and (ahead.steps < USUAL_STEPS or ahead.is_cut):
        ran = count(ahead.steps, "further step")
        cut = f", {_NOT_ALL_VALUES}" if ahead.is_cut else ""
        yield Limit("horizon", called, f"there was time for only {ran}{cut}; {_LATER_EFFECT}")


def _iterators(answers: Answers) -> list[str]:
    """Return the iterators that a step advances. Their position cannot be read, so graphsafe cannot advance them to
    test much later steps."""
    return [change.name for change in answers[State].changed or () if change.how == "opaque"]


def doubts_of(seen: DeviceAnswers, known: Sequence[Limit], called: str) -> Iterator[Limit]:
    """Yield a limit for each reason why the verdict is inconclusive, so that every form of the report has all reasons.
    Reasons that a known limit or a probe already gives are left out. `called` is the target's name."""
    judged = judge(seen.probes, seen.plan)
    if judged.verdict == "inconclusive" and not any(limit.kind in (BAD_REQUEST, INTERNAL) for limit in known):
        given = [first_line(probe.reason) for _, probe in seen.probes if probe.reason]
        for doubt in judged.reasons:
            if not is_given(doubt, known) and not any(reason in doubt for reason in given):
                yield Limit("inconclusive", called, doubt)


def is_given(doubt: str, known: Sequence[Limit]) -> bool:
    """Return whether a limit already gives this reason, either in its own words or by naming the same operation or
    input."""
    named = [limit.what for limit in known if limit.kind in _NAMED and _NAMED[limit.kind] in doubt]
    return any(text in doubt for text in (*named, *(limit.why for limit in known)))
