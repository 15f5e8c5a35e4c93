"""The verdict: a pure function of the probes.

Findings explain the verdict. Suppressions, selected rules and levels never change it. The fields in `report/probes/`
describe each key. A missing key is read as null, that is, as "not known". If a child died by itself (a signal,
`os._exit`), its probe is `crashed`. If the child was killed from outside or could not be run, its probe is `skipped`.

`state`, `memory` and `timing` do not affect the verdict. If an unknown operation ran, no comparison proves anything:
in this case, only a failed capture, or a generator that was left in capture mode, makes the step not ready. A plan can
cut lines out of the step. It cannot repair a generator that was left in capture mode, state that step 1 has filled, or
operations whose effects are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.report.model import VERDICTS, Plan, Verdict
from graphsafe.report.probes import Probes
from graphsafe.report.probes.horizon import Departure
from graphsafe.report.probes.probe import Error, Probe, error_text
from graphsafe.report.probes.replay import Check, Replay, differing
from graphsafe.report.probes.twin import Twin
from graphsafe.report.text import count, first_line, listed

_CHANCE = ": equal eager steps differ by chance, and torch.use_deterministic_algorithms(True) may prevent this"
_SHAPES_ALONE = "shapes alone show no obstacle: values were not computed"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its reasons, the most important first. Each reason is a plain sentence without a full stop."""

    verdict: Verdict
    reasons: tuple[str, ...]


def judge(probes: Probes | Mapping[str, Any], plan: Plan | None = None) -> Judgement:
    """Judge one step on one device in one bucket. `plan` is the plan for this step, or None."""
    seen = probes if isinstance(probes, Probes) else Probes.of(probes)
    against = _against(seen)
    beyond_plan = _beyond_plan(seen)
    of_shapes = seen.capture.from_shapes and seen.capture.status == "pass" and not _unknown_operations(seen)
    doubts = (_SHAPES_ALONE,) if of_shapes else _doubts(seen)
    if not against and not beyond_plan and not doubts:
        varied = count(seen.replay.varied or 0, "replay")
        return Judgement("ready", (f"captured, and {varied} on changed inputs equal the reference",))
    unknown = _unknown_operations(seen)
    covered = _covered(plan)
    if not beyond_plan and not unknown and covered > 0:
        share = "less than 1 %" if covered < 0.01 else f"{math.floor(covered * 100)} %"
        return Judgement("ready-with-breaks", (f"a verified plan covers {share} of the step", *(against or doubts)))
    if beyond_plan or against:
        return Judgement("not-ready", (*beyond_plan, *against))
    return Judgement("inconclusive", doubts)


def verdict(probes: Probes | Mapping[str, Any], plan: Plan | None = None) -> Verdict:
    return judge(probes, plan).verdict


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict of devices, buckets or ranks. Return `inconclusive` if there is none."""
    return max(verdicts, key=VERDICTS.index, default="inconclusive")


def _beyond_plan(probes: Probes) -> tuple[str, ...]:
    """Return the reasons for which the step is not ready even with a plan."""
    reasons = []
    if probes.construct.left_capturing is True:
        reasons.append("construction left a random generator in capture mode")
    if probes.replay.first_step == "fail" and not _unknown_operations(probes):
        reasons.append("replays use state that only the first step computed")
    return tuple(reasons)


def _against(probes: Probes) -> tuple[str, ...]:
    """Return the reasons for which the step as a whole is not ready. A plan may cut out the lines that cause them."""
    capture, replay = probes.capture, probes.replay
    if capture.status == "fail" and capture.empty is not True:
        return (f"the capture failed{_error(capture, capture.first_error)}",)
    if capture.status == "crashed" and capture.phase == "capture":
        return (f"the process died while capturing{_because(capture)}",)
    if _unknown_operations(probes) or not capture.answered:
        return ()
    reasons = []
    if capture.empty is True:
        timeline = probes.timeline
        idle = timeline.operations is not None and not timeline.of_kind("launch", "copy")
        on_host = (
            ": an eager step launches nothing on the device; were the module and its inputs moved there?"
            if idle
            else ""
        )
        reasons.append(f"the graph is empty{on_host}")
    elif capture.misses_work is True:
        reasons.append("work of the step ran outside the graph")
    if replay.first_error:
        reasons.append(f"a replay failed{_error(replay, replay.first_error)}")
    elif replay.status == "crashed":
        reasons.append(f"the process died in a replay{_because(replay)}")
    if replay.reference == "independent":
        reasons += _differences(differing(replay.checks or ()))
    if replay.rng_law == "fail":
        reasons.append("replays draw other random numbers than eager steps")
    if probes.twin.status == "fail":
        reasons.append(_frozen(probes.twin))
    if probes.order.races:
        reasons.append(f"the graph has a race: {probes.order.text()}")
    if probes.horizon.status == "fail" and probes.horizon.departure is not None:
        reasons.append(_departed(probes.horizon.departure))
    return tuple(reasons)


def _differences(wrong: Iterable[Check]) -> Iterator[str]:
    """Yield a sentence if replays differ from the reference, and one if the captured code path differs from eager
    steps."""
    wrong = list(wrong)
    replays = [check.name for check in wrong if check.compares != "plain eager"]
    if replays:
        yield f"replay differs from the reference in {listed(replays, most=3)}"
    elsewhere = [check.name for check in wrong if check.compares == "plain eager"]
    if elsewhere:
        yield f"the captured step computes something other than the eager step: {listed(elsewhere, most=3)}"


def _departed(departure: Departure) -> str:
    before, after = departure.before, departure.after
    change = f"{departure.op} has {before} at capture and {after} later"
    if departure.what == "operation":
        change = f"the capture runs {before}, but {after} runs later"
    elif departure.what == "count":
        change = f"the capture runs {before}, and a later step runs {after}"
    if departure.under == "further steps":
        return f"the step changes {count(departure.step, 'step')} after the capture: {change}"
    return f"{_DECIDED_BY[departure.under]}: {change}"


_DECIDED_BY = {
    "clocks a day later": "the step depends on a host clock",
    "rare random numbers on the host": "the step depends on a random number that the host draws",
    "other inputs on the host": "the step depends on a host input",
    "other values in host memory": "Python reads host memory that the step writes",
}


def _frozen(twin: Twin) -> str:
    if twin.first_error:
        return f"the step cannot be captured a second time{_error(twin, twin.first_error)}"
    first = next(iter(twin.differences or ()), None)
    froze = _FROZE.get(first.what if first is not None else "", "something else")
    return f"the capture froze something that changes from step to step: a later capture has {froze}"


_FROZE = {
    "count": "another number of nodes",
    "operation": "another kernel",
    "extent": "another size",
    "scalar": "another number",
    "address": "other memory",
}


def _doubts(probes: Probes) -> tuple[str, ...]:
    """Return the doubts that rule out the verdict `ready` although nothing disproves it."""
    construct, step, capture, replay, twin = probes.construct, probes.step, probes.capture, probes.replay, probes.twin
    if construct.built is False:
        return (f"the target was not built{_because(construct)}",)
    if construct.status in ("crashed", "timeout"):
        return (f"construction {_ended(construct)}{_because(construct)}",)
    if not capture.answered and step.ran is False:
        how = "fails eagerly" if step.status == "fail" else _ended(step)
        return (f"the step {how}{_because(step)}",)
    if not capture.answered:
        return (f"the capture {_ended(capture)}{_because(capture)}",)
    reasons = []
    unknown = _unknown_operations(probes)
    if unknown:
        reasons.append(f"the simulated device cannot predict {listed(unknown, most=3)}")
    if construct.left_capturing is None:
        reasons.append("the generators were not checked after construction")
    if not replay.answered:
        reasons.append(f"the replay {_ended(replay)}{_because(replay)}")
        return tuple(reasons)
    opaque = [change.name for change in probes.state.changed or () if change.how == "opaque"]
    reasons += _doubts_of_comparison(replay, twin, opaque)
    for what, probe in (
        ("the comparison with a second capture", twin),
        ("the search for races", probes.order),
        ("the check of further steps", probes.horizon),
    ):
        if probe.status in ("crashed", "timeout"):
            reasons.append(f"{what} {_ended(probe)}")
    if probes.horizon.files_read:
        reasons.append(
            f"the step reads or looks for {listed(probes.horizon.files_read, most=3)}: later steps may differ"
        )
    if replay.rng_law not in ("pass", "skipped", "fail"):
        reasons.append("the random numbers of replays were not checked")
    if replay.first_step in ("crashed", "timeout"):
        reasons.append(f"the comparison with a first step {'died' if replay.first_step == 'crashed' else 'timed out'}")
    if replay.status == "fail" and not reasons and not _against(probes):
        reasons.append(f"the replay probe failed without naming a difference{_because(replay)}")
    return tuple(reasons)


def _doubts_of_comparison(replay: Replay, twin: Twin, opaque: Sequence[str]) -> Iterator[str]:
    """Yield the doubts about the comparisons of replays with the reference, and of the capture with another one.
    `opaque` has the names of changed generators and iterators, whose position cannot be read."""
    if replay.reference != "independent":
        yield "there is no independent reference to compare with"
        return
    if not replay.checks:
        yield "nothing could be compared with the reference"
        return
    undecided = [check for check in replay.checks if check.result is None]
    if undecided:
        unread = all(check.max_abs is None for check in undecided)
        names = listed([check.name for check in undecided], most=3)
        cause = f": a step moves {listed(opaque, most=3)} on, which no run can put back" if opaque else _CHANCE
        why = f"no value can be read from {names}" if unread else f"the reference is not reproducible in {names}{cause}"
        yield replay.reason or why
    if not replay.varied:
        doubt = "no changed input changed the reference, so the replay was not tested"
        yield f"{doubt}: use a refresh that changes the data that the step reads"
    unvaried = replay.unvaried_host if twin.agree is True else replay.unvaried
    if unvaried:
        yield f"{listed(list(unvaried), most=3)} could not be varied: give them new values in refresh"
    if twin.status == "skipped" and twin.first_error is not None:
        doubt = "the step runs only a few times, so no second capture was possible"
        yield f"{doubt}: give it a reset, which makes room for further steps"


def _covered(plan: Plan | None) -> float:
    """Return the share of the step that a verified plan covers. If the plan is for the step without its own graphs,
    return 0."""
    return (plan.coverage or 0.0) if plan is not None and plan.verified and plan.reason is None else 0.0


def _unknown_operations(probes: Probes) -> list[str]:
    seen = (*(probes.step.unknown_operations or ()), *(probes.capture.unknown_operations or ()))
    return list(dict.fromkeys(seen))


def _ended(probe: Probe) -> str:
    return {"crashed": "died", "timeout": "timed out"}.get(probe.status or "skipped", "did not run")


def _because(probe: Probe) -> str:
    return f": {first_line(probe.reason)}" if probe.reason else ""


def _error(probe: Probe, error: Error | None) -> str:
    message = error_text(error)
    return f": {message}" if message else _because(probe)
