"""Makes the probes of one run from the children's answers, and from the way in which a child ended. Also converts the
probes for a report: frames become places, and paths become relative."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from graphsafe.capture.answers.build import Ended, Varied
from graphsafe.capture.answers.probes import (
    ComparedRounds,
    FiredEvents,
    Marks,
    Reference,
    SeenEvent,
    StepMemory,
    TakenPath,
    Watched,
)
from graphsafe.capture.shared.answers import Answers
from graphsafe.capture.shared.collectives import Call
from graphsafe.capture.shared.places import line_text, shown
from graphsafe.report.model import Plan, Source, Verdict
from graphsafe.report.probes import Probes
from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.horizon import Departure
from graphsafe.report.probes.memory import Memory
from graphsafe.report.probes.probe import ABSOLUTE, PLACE_OF, Error, is_unreported
from graphsafe.report.probes.replay import NO_REFERENCE, Check, Replay, differing
from graphsafe.report.probes.step import Line, Step
from graphsafe.report.probes.twin import Twin
from graphsafe.report.text import count, listed

IN_LATER_ROUND, BEHIND_HOST = " in a later round", " with the device behind the host"


@dataclass(frozen=True, slots=True)
class DeviceAnswers:
    """The answers of the children for one device and bucket. Answers that are missing are empty."""

    device: str
    source: Source
    verdict: Verdict
    probes: Probes
    answers: Answers = field(default_factory=Answers)
    "The answers that are not probes."
    plan: Plan | None = None
    marks: Marks = field(default_factory=Marks)
    "The plan's judgement of the target's own marks."
    rank: int | None = None
    divergence: Mapping[int, Call | None] = field(default_factory=dict)
    "Rank -> its first collective that other ranks lack. None for a rank that stopped before the others."


def reported(answer: Any) -> Any:
    """Return an answer as JSON values, in the form that a report shows."""
    if isinstance(answer, Mapping):
        return {str(key): reported(value) for key, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [reported(value) for value in answer]
    if not is_dataclass(answer):
        return answer
    found = {}
    for one in fields(answer):
        value = getattr(answer, one.name)
        if PLACE_OF in one.metadata:
            frames = getattr(answer, one.metadata[PLACE_OF])
            value = line_text(frames[-1]) if frames else value
        elif one.metadata == ABSOLUTE and value is not None:
            path, _, line = value.rpartition(":")
            value = f"{shown(path)}:{line}"
        if not is_unreported(one):
            found[one.name] = reported(value)
    return found


def by_line(events: Iterable[SeenEvent]) -> tuple[Line, ...]:
    """Return the lines of a warm step, with the number of events of each kind on each line."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for event in events:
        if event.frames and not event.first_only:
            found[line_text(event.frames[-1])][event.kind] += event.count
    return tuple(Line(place, kinds) for place, kinds in sorted(found.items()))


def step_of(answers: Answers, *failures: Ended) -> Step:
    """Return the probe `step`. `failures` are the ends of those children in which the step may have failed."""
    step = answers[Step]
    if Watched in answers:
        step = replace(step, by_line=by_line(answers[Watched].events))
    for end in failures:
        if end.how == "target":
            step = replace(step, status="fail", ran=False, reason=end.why)
    return step


def capture_of(answers: Answers, end: Ended, phase: str) -> Capture:
    """Return the probe `capture` of a child, from its answers, its end, and its phase at the end."""
    capture = answers.get(Capture) or Capture(reason="it was not reached")
    if capture.status == "pass" or end.how in ("done", "state"):
        return capture
    if end.how == "target":
        return replace(capture, status="skipped", reason=end.why)
    phase = "capture" if phase == "capture" else "warm-up" if "warm-up" in phase else "build"
    if end.how == "crashed" and end.at is not None:
        capture = replace(capture, first_error=Error(end.why, frames=(end.at,)))
    return replace(capture, status=end.status, phase=phase, reason=end.why)


def replay_of(answers: Answers, end: Ended, phase: str, capture: Capture, reference: Ended) -> Replay:
    """Return the probe `replay` of a child, from its answers, its end, its phase at the end, and its probe `capture`.
    `reference` is the end of the reference child. Replays are compared with the steps of that child."""
    replay = answers.get(Replay) or Replay(checks=())
    if replay.reason == NO_REFERENCE and reference.why:
        replay = replace(replay, reason=f"{NO_REFERENCE}: {reference.why}")
    if capture.status != "pass" or end.how in ("done", "state"):
        return replay
    if end.how == "target":
        return replace(replay, status="fail", first_error=Error(end.why))
    if replay.rng is None:
        return replace(replay, status="skipped" if phase.startswith("wait") else end.status, reason=end.why)
    return replace(replay, first_step="timeout") if end.how == "timeout" else replay


def with_reference(replay: Replay, answers: Answers) -> Replay:
    """Return the probe with the reference's checks, and with the number of replays on new inputs."""
    reference, inputs = answers[Reference], answers[Varied]
    replay = replace(replay, varied=reference.varied, unvaried=inputs.unvaried, unvaried_host=inputs.unvaried_host)
    return with_checks(replay, reference.checks)


def with_events(replay: Replay, answers: Answers, expected: int, why: str) -> Replay:
    """Return the probe with the replays after events. If fewer than `expected` events happened, or fewer
    than in the reference, an undecided check is added with the reason `why`. If an event happens a second
    time, the checks after it are added only if they do not pass."""
    fired = answers[FiredEvents].events
    if len(fired) < max(expected, answers[Reference].events):
        replay = replace(replay, reason=why)
        replay = with_checks(replay, (Check("the step after an event", None, False, None, None),))
    for number, event in enumerate(fired):
        is_again = number >= expected
        name = f"{event.name} again" if is_again else event.name
        checks = [check for check in event.checks if not is_again or check.result in ("different", None)]
        replay = with_checks(replay, tuple(replace(check, name=f"{check.name} after {name}") for check in checks))
    return replay


def with_rounds(probes: Probes, rounds: ComparedRounds) -> Probes:
    """Return the probes with the results of further rounds. Rounds that fail, or whose results differ, change the
    verdict. If no other replay had new inputs, rounds with new inputs count as replays on new inputs. The number of
    rounds is always reported."""
    replay = replace(probes.replay, rounds=rounds.number)
    if not replay.varied and replay.rng_law == "skipped":
        # A refresh may change the inputs only in every twentieth round. The step draws no random numbers, and rounds
        # begin with the same state, so only the refresh can make their results differ.
        replay = replace(replay, varied=rounds.varied)
    if rounds.error is not None:
        return replace(probes, replay=replace(replay, status="fail", first_error=rounds.error))
    checks = (
        *(replace(check, name=check.name + IN_LATER_ROUND) for check in rounds.checks),
        *(replace(check, name=check.name + BEHIND_HOST) for check in rounds.late),
    )
    replay = with_checks(replay, tuple(check for check in checks if check.result in ("different", None)))
    if rounds.doubt is not None:
        replay = replace(replay, reason=rounds.doubt)
    probes = replace(probes, replay=replay)
    return _with_tested_paths(probes, rounds) if replay.status == "pass" and rounds.is_faithful else probes


def _with_tested_paths(probes: Probes, rounds: ComparedRounds) -> Probes:
    """Return the probes without those departures from the captured path that rounds of the refresh have tested.

    Eager rounds run the step's Python code. So if a step takes another path in a round, it is compared with a replay,
    which repeats the captured path. If the results are equal, the graph is also right for steps that take the other
    path. An example is a penalty that eager steps leave out if its factor is one. If twin captures differ for the same
    reason, the difference proves no fault.
    """
    horizon, twin = probes.horizon, probes.twin
    if horizon.departure is None:
        return probes
    tested = {one.path: one for one in _tested(rounds, {one.path for one in horizon.paths})}
    untested = [one for one in horizon.paths if one.path not in tested]
    if horizon.last is not None:
        untested.append(horizon.last)
    if untested:
        steps = untested[0].step - 1 if horizon.paths else horizon.steps
        return replace(probes, horizon=replace(horizon, steps=steps, departure=untested[0]))
    hidden = [one for one in horizon.paths if not tested[one.path].is_shown]
    if twin.status == "fail":
        if hidden or not twin.changes or any(one.kind != "attribute" for one in twin.changes):
            return probes
        twin = replace(twin, status="pass", causes=(), changes=())
    replay = _with_doubt(probes.replay, hidden[0]) if hidden else probes.replay
    found = replace(horizon, status="pass", departure=None, other_paths=len(horizon.paths))
    return replace(probes, replay=replay, horizon=found, twin=twin)


def _tested(rounds: ComparedRounds, others: Set[str]) -> list[TakenPath]:
    """Return the paths of the rounds whose results equal those of replays. If results on the usual path are equal bit
    for bit, rounding cannot explain a difference. Results on other paths then have to be equal bit for bit too."""
    is_exact = all(one.is_exact for one in rounds.paths if one.path not in others)
    return [one for one in rounds.paths if one.is_exact or not is_exact]


def _with_doubt(replay: Replay, path: Departure) -> Replay:
    name = f"the results of another path, which the step takes {count(path.step, 'step')} later"
    why = f"no result shows small differences of {path.op} on {name.removeprefix('the results of ')}: return floats too"
    return with_checks(replace(replay, reason=why), (Check(name, None, False, None, None),))


def with_checks(replay: Replay, checks: tuple[Check, ...]) -> Replay:
    """Return the probe with more checks. If a check differs, a pass becomes a fail."""
    checks = (*(replay.checks or ()), *checks)
    status = "fail" if replay.status == "pass" and differing(checks) else replay.status
    return replace(replay, status=status, checks=checks)


def with_harmless_state(probes: Probes) -> Probes:
    """Return the probes of a step that is ready. Its replays are right, so a change of state is not a fault, and
    `state` passes."""
    state = probes.state
    return replace(probes, state=replace(state, status="pass")) if state.status == "fail" else probes


def twin_of(answers: Answers, end: Ended) -> Twin:
    """Return the probe `twin` of a child, from its answers and its end."""
    twin = answers[Twin]
    if twin.status == "crashed" and end.how == "timeout":
        return replace(twin, status="timeout", reason=end.why)
    return twin


def memory_of(held: StepMemory, capture: Capture) -> Memory:
    """Return the probe `memory` from the memory of a step. The probe has a pool only if the capture passed."""
    pool = held.pool if capture.status == "pass" else None
    return Memory("skipped" if held.step is None else "pass", step=held.step, pool=pool)


def measured(memory: Memory, answers: Memory) -> Memory:
    """Return the probe `memory` with the answer of the measuring child."""
    pool = memory.pool if answers.pool is None else answers.pool
    return replace(
        memory, status=answers.status, pool_bytes=answers.pool_bytes, peak_bytes=answers.peak_bytes, pool=pool
    )


def may_be_chance(probes: Probes) -> bool:
    """Return whether replays differ from eager steps, and twin captures do not explain the difference."""
    return bool(_wrong(probes.replay)) and not probes.twin.explains


def confirmed(replay: Replay, second: Replay) -> Replay:
    """Return `replay` without the differences that are missing from `second`, the replays of a second capture. Such
    differences prove nothing, so their checks become undecided. If the second replays did not finish, return `replay`
    unchanged.

    A few steps write one element several times, for example `index_copy_` with an index that appears twice. CUDA does
    not define which value remains. It is nearly always the same one, so eager steps may agree by chance. On an H200
    with torch 2.11, while other processes used the GPU, four eager runs of such a step agreed and a replay differed.
    """
    again = {check.name for check in _wrong(second)}
    once = [check for check in _wrong(replay) if check.name not in again]
    if second.rng_law is None or not once:
        return replay
    checks = tuple(replace(check, result=None, floor=None) if check in once else check for check in replay.checks or ())
    if differing(checks) or replay.rng_law == "fail":
        return replace(replay, checks=checks)
    names = listed([check.name for check in once], most=3)
    why = f"replays of one capture differ from eager steps in {names}, and replays of another capture do not"
    return replace(replay, status="pass", reason=why, checks=checks)


def _wrong(replay: Replay) -> list[Check]:
    """Return the checks in which replays differ from the reference."""
    return [check for check in differing(replay.checks or ()) if check.compares != "plain eager"]
