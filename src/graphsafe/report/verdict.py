"""The verdict: a pure function of what the probes saw.

Findings explain a verdict; suppressions, selection and levels never change it. Of `probes` this is read, and nothing
else. Other keys may stand beside; a missing key reads as null, and null is "not known".

every probe
    status: pass | fail | skipped | crashed | timeout. `crashed`: the child died by itself (a signal, `os._exit`). One
        that was killed from outside, or that could not be run, is `skipped`.
    reason: text. Why it is skipped, crashed or timed out; it is repeated in the reason for the verdict.
construct
    built: bool. The factory returned something that can be stepped.
    left_capturing: bool. After the factory returned, the generator of a device with a live context refuses to draw as
        if a capture were under way.
step
    ran: bool. The eager step ran to its end. It only words a reason: a capture attempt comes after a warm-up in the
        same child, so `capture.status` pass or fail shows by itself that the step runs eagerly.
    unknown_operations: list of text. What ran that the device cannot vouch for; empty on CUDA.
capture
    status: of the plain, uninstrumented attempt. `pass`: a graph came out. `fail`: warm-up ran, then the attempt
        raised, could not be ended, or gave an empty graph. `skipped`: warm-up raised, or memory ran out because other
        children held the device (to be tried again alone).
    phase: text. What the child did last, by its own word; death in the phase `capture` is a failed capture.
    first_error: {message, ...}. The root of the exception chain.
    empty: bool. The graph has no node.
    misses_work: bool. Device work of the step ran outside the graph. Never derived from lists of kernels.
    unknown_operations: as in step.
replay
    status: `pass`: all replays ran, and nothing below speaks against them. `crashed`: the child died in a replay, after
        a capture that passed.
    first_error: {message, ...}. A replay raised.
    reference: "independent". The reference child delivered what the replays are compared with.
    checks: [{name, result, compares}]. Every output and every piece of state, over all replays, against the same steps
        of the reference, which runs along the path that captures take; and that path against plain eager steps
        (`compares`: "plain eager"). `result`: "equal" bit for bit, "rounding" within what chance or rounding does,
        "different" beyond it, null where nothing bounds the difference.
    varied: int. In how many replays the changed inputs changed the reference's outputs or state.
    unvaried: list of text. Inputs that could not be given new values and on which the outputs may depend.
    rng_law: pass | fail | skipped. `skipped`: the step draws no random numbers; null: it could not be checked.
    first_step: pass | fail | skipped | crashed | timeout. `fail`: a replay differs from the reference's first step
        because of an attribute that was born in step 1, follows the inputs of step 1 and is not rewritten later (GS701
        proven). A difference by design, such as a cache position, is a `pass`. `skipped`: nothing was born in step 1.
twin
    status: `fail`: captures of the step, some steps apart, are not the same graph, or the step could not be captured
        again. What Python decides at capture changes, and a replay does not follow.
    agree: bool. They are the same, node by node, as far as the driver shows every node.
    differences: [{what, op, ...}].
plan
    verified: bool. The segments, replayed in order on changed inputs, equalled the independent reference.
    coverage: 0 to 1. The share of the step's device operations that lie in captured segments.
    reason: text. Where a verified plan has one, it is the plan of another step (the same one without its own graphs).

`state`, `memory` and `timing` decide nothing. Where an unknown operation ran, a comparison proves nothing either way:
only a failed capture or a generator left capturing is not-ready then. A plan mends what can be cut out of the step,
not a generator left capturing, nor state filled in step 1, nor operations nobody can vouch for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.report.model import VERDICTS, Verdict
from graphsafe.report.text import count, first_line, listed

Probe = Mapping[str, Any]
Probes = Mapping[str, Probe]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and why: one plain sentence a reason, without a full stop, the most telling first."""

    verdict: Verdict
    reasons: tuple[str, ...]


def judge(probes: Probes, plan: Mapping[str, Any] | None = None) -> Judgement:
    """Judge one step on one device in one bucket; `plan` is the plan for that same step, if there is one."""
    against = _against(probes)
    beyond_plan = _beyond_plan(probes)
    doubts = _doubts(probes)
    if not against and not beyond_plan and not doubts:
        varied = probes["replay"]["varied"]
        return Judgement("ready", (f"captured, and {count(varied, 'replay')} on changed inputs equal the reference",))
    unknown = _unknown_operations(probes)
    if not beyond_plan and not unknown and _covers_something(plan):
        share = f"a verified plan covers {_percent((plan or {})['coverage'])} of the step"
        return Judgement("ready-with-breaks", (share, *(against or doubts)))
    if beyond_plan or against:
        return Judgement("not-ready", (*beyond_plan, *against))
    return Judgement("inconclusive", doubts)


def verdict(probes: Probes, plan: Mapping[str, Any] | None = None) -> Verdict:
    return judge(probes, plan).verdict


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict over devices, buckets and ranks; inconclusive where there is none."""
    return max(verdicts, key=VERDICTS.index, default="inconclusive")


def _beyond_plan(probes: Probes) -> tuple[str, ...]:
    """What makes the step not ready and cannot be cut out of it."""
    reasons = []
    if _of(probes, "construct").get("left_capturing") is True:
        reasons.append("construction left a random-number generator capturing")
    if _of(probes, "replay").get("first_step") == "fail" and not _unknown_operations(probes):
        reasons.append("state filled in the first step is missing from the graph, and replay goes on using it")
    return tuple(reasons)


def _against(probes: Probes) -> tuple[str, ...]:
    """What makes the step not ready as a whole."""
    capture, replay = _of(probes, "capture"), _of(probes, "replay")
    if capture.get("status") == "fail" and capture.get("empty") is not True:
        return (f"the capture failed{_error(capture)}",)
    if capture.get("status") == "crashed" and capture.get("phase") == "capture":
        return (f"the process died while capturing{_because(capture)}",)
    if _unknown_operations(probes) or capture.get("status") not in ("pass", "fail"):
        return ()
    reasons = []
    if capture.get("empty") is True:
        reasons.append("the graph is empty")
    elif capture.get("misses_work") is True:
        reasons.append("work of the step ran outside the graph")
    if replay.get("first_error"):
        reasons.append(f"a replay failed{_error(replay)}")
    elif replay.get("status") == "crashed":
        reasons.append(f"the process died in a replay{_because(replay)}")
    if replay.get("reference") == "independent":
        differing = [check["name"] for check in _checks(replay) if _differs(check) and not _of_path(check)]
        if differing:
            reasons.append(f"replay differs from the reference in {listed(differing, most=3)}")
        elsewhere = [check["name"] for check in _checks(replay) if _differs(check) and _of_path(check)]
        if elsewhere:
            reasons.append(f"the step computes something else than an eager step does: {listed(elsewhere, most=3)}")
    if replay.get("rng_law") == "fail":
        reasons.append("replays do not draw the random numbers that eager steps draw")
    twin = _of(probes, "twin")
    if twin.get("status") == "fail":
        reasons.append(_frozen(twin))
    return tuple(reasons)


def _frozen(twin: Probe) -> str:
    if twin.get("first_error"):
        return f"the step cannot be captured a second time{_error(twin)}"
    first: Mapping[str, Any] = next(iter(twin.get("differences") or ()), {})
    froze = {
        "count": "another number of nodes",
        "operation": "another kernel",
        "extent": "another size",
        "scalar": "another number",
        "address": "other memory",
    }.get(first.get("what", ""), "something else")
    return f"Python decides at capture what changes from step to step: a later capture has {froze}"


def _doubts(probes: Probes) -> tuple[str, ...]:
    """What keeps the step from being called ready though nothing speaks against it."""
    construct, step, capture, replay = (_of(probes, name) for name in ("construct", "step", "capture", "replay"))
    if construct.get("built") is False:
        return (f"the target was not built{_because(construct)}",)
    if construct.get("status") in ("crashed", "timeout"):
        return (f"construction {_ended(construct)}{_because(construct)}",)
    if capture.get("status") not in ("pass", "fail") and step.get("ran") is False:
        return (f"the step fails eagerly{_because(step)}",)
    if capture.get("status") not in ("pass", "fail"):
        return (f"the capture {_ended(capture)}{_because(capture)}",)
    reasons = []
    unknown = _unknown_operations(probes)
    if unknown:
        reasons.append(f"the simulated device cannot vouch for {listed(unknown, most=3)}")
    if construct.get("left_capturing") is None:
        reasons.append("the generators were not checked after construction")
    if replay.get("status") not in ("pass", "fail"):
        reasons.append(f"the replay {_ended(replay)}{_because(replay)}")
        return tuple(reasons)
    if replay.get("reference") != "independent":
        reasons.append("there is no independent reference to compare with")
    elif not _checks(replay):
        reasons.append("nothing could be compared with the reference")
    else:
        undecided = [check["name"] for check in _checks(replay) if _undecided(check)]
        if undecided:
            unread = all(check.get("max_abs") is None for check in _checks(replay) if _undecided(check))
            why = "no value can be read of" if unread else "the reference does not repeat itself in"
            reasons.append(f"{why} {listed(undecided, most=3)}")
        if not replay.get("varied"):
            reasons.append("no changed input changed the reference, so replay was not put to the test")
        unvaried = replay.get("unvaried") or ()
        if unvaried and _of(probes, "twin").get("agree") is not True:
            reasons.append(f"{listed(list(unvaried), most=3)} could not be varied: give a refresh that does")
    if _of(probes, "twin").get("status") in ("crashed", "timeout"):
        reasons.append(f"the comparison with a second capture {_ended(_of(probes, 'twin'))}")
    if replay.get("rng_law") not in ("pass", "skipped", "fail"):
        reasons.append("the random numbers of replays were not checked")
    if replay.get("first_step") in ("crashed", "timeout"):
        reasons.append(
            f"the comparison with a first step {'died' if replay['first_step'] == 'crashed' else 'timed out'}"
        )
    if replay.get("status") == "fail" and not reasons and not _against(probes):
        reasons.append(f"the replay probe failed without saying how{_because(replay)}")
    return tuple(reasons)


def _differs(check: Mapping[str, Any]) -> bool:
    return bool(_result(check) == "different")


def _of_path(check: Mapping[str, Any]) -> bool:
    return check.get("compares") == "plain eager"


def _undecided(check: Mapping[str, Any]) -> bool:
    return _result(check) is None


def _result(check: Mapping[str, Any]) -> Any:
    """As it is told; from the numbers in a report that was written before results were."""
    if "result" in check:
        return check["result"]
    floor, largest = _number(check.get("floor")), _number(check.get("max_abs"))
    if check.get("equal") is True:
        return "equal"
    if check.get("equal") is None or floor is None:
        return None
    return "rounding" if largest is not None and largest <= floor else "different"


def _number(value: float | None) -> float | None:
    """NaN and infinity are no measure of a difference."""
    return value if value is not None and math.isfinite(value) else None


def _covers_something(plan: Mapping[str, Any] | None) -> bool:
    if plan is None or plan.get("verified") is not True or plan.get("reason") is not None:
        return False
    return (plan.get("coverage") or 0) > 0


def _unknown_operations(probes: Probes) -> list[str]:
    seen = [name for probe in ("step", "capture") for name in _of(probes, probe).get("unknown_operations") or ()]
    return list(dict.fromkeys(seen))


def _of(probes: Probes, name: str) -> Probe:
    return probes.get(name) or {}


def _checks(replay: Probe) -> Sequence[Mapping[str, Any]]:
    return replay.get("checks") or ()


def _ended(probe: Probe) -> str:
    return {"crashed": "died", "timeout": "timed out"}.get(probe.get("status") or "skipped", "did not run")


def _because(probe: Probe) -> str:
    return f": {first_line(probe['reason'])}" if probe.get("reason") else ""


def _error(probe: Probe) -> str:
    message = first_line((probe.get("first_error") or {}).get("message") or "")
    return f": {message}" if message else _because(probe)


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.01 else f"{math.floor(share * 100)} %"
