"""The child that plans: finds breaks, captures what is between them, replays the whole on changed inputs, and compares
with the reference as the capture child does. One attempt that fails ends it; what it has learned goes to the next."""

from __future__ import annotations

import contextlib
import gc
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from graphsafe.capture.job import read_result
from graphsafe.capture.own_graphs import plain
from graphsafe.capture.own_graphs.marks import eager_marks, judged, mark_of
from graphsafe.capture.plan.causes import (
    Cause,
    changing,
    host_causes,
    known_causes,
    readers,
    rebindings,
    unexplained,
    without_line,
)
from graphsafe.capture.plan.emit import Unemittable, emitted
from graphsafe.capture.plan.freezes import Need
from graphsafe.capture.plan.host_lines import lines_that_change
from graphsafe.capture.plan.plan_data import planned, timed
from graphsafe.capture.plan.runtime import GuardBroken, PlannedRecording, record
from graphsafe.capture.plan.search import Search, Unplannable
from graphsafe.capture.probes.capture import Replays, given_reference
from graphsafe.capture.session import FIRST_SEED, Session, opened
from graphsafe.capture.state import Snapshot
from graphsafe.capture.targets import TargetError
from graphsafe.report.model import CallSite
from graphsafe.report.plan_text import headline
from graphsafe.rulebook import load_rulebook

if TYPE_CHECKING:
    from pathlib import Path

    from graphsafe.capture.job import Channel, Job

_MOST_ATTEMPTS = 6
"Captures in this process that were replayed and then found to freeze something."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            channel.tell(plan={"reason": "there is no independent reference to verify a plan with"})
            return
        built, reference = given
        try:
            _plan(session, channel, reference, built)
        except Unplannable as error:
            channel.tell(plan={"reason": str(error)})


def _plan(session: Session, channel: Channel, reference: Any, built: Any) -> None:
    folder = channel.folder
    names = ("step", "reference", "capture", "diagnose")
    step, eager, capture, diagnose = (read_result(folder, name) for name in names)
    table = load_rulebook().ops
    start = Snapshot(session.device, session.subject)
    with session.device.capture_stream():
        session.warm_up()
    search = Search(session, Snapshot(session.device, session.subject), table, rebindings(step))
    search.blame(known_causes(step, eager, capture, diagnose, table))
    unknown = without_line(step)
    if unknown:
        lines = lines_that_change(session, unknown)
        lost = unexplained(unknown, lines)
        if lost is not None:
            raise Unplannable(f"`{lost}` changes in every step, and no line is known that does it")
        search.blame(host_causes(lines))
    search.blame(readers(step, changing(step)))
    search.blame(_learned(read_result(folder, "learned")))
    for attempt in range(_MOST_ATTEMPTS):
        search.find()
        if not any(op.visit is None and op.launches for op in search.log.ops):
            reason = "every operation of the step has to run eagerly"
            channel.tell(
                plan={**planned(search, None, timed(session, search)), "reason": reason}, marks=_judged(search)
            )
            return
        channel.phase(f"capture segments, attempt {attempt + 1}")
        recording = _record(session, channel, search, start)
        if recording is None:
            return
        replays = Replays(session, recording, reference, partial(_restart, start, recording))
        # A first step that the plan cannot make: the result says that it is open.
        with contextlib.suppress(TargetError):
            replays.run(built)
        broken = replays.error
        reported = planned(search, recording)
        if not isinstance(broken, GuardBroken):
            reported |= {"checks": replays.result.get("checks"), "reason": _against(replays) or _untested(folder)}
            channel.tell(plan=reported, marks=_judged(search))
            if reported["reason"] is not None:
                return
            try:
                reported |= {**planned(search, recording, timed(session, search, recording)), "verified": True}
                channel.tell(plan=reported, emitted=_code(session, search, reported))
                return
            except GuardBroken as error:
                broken = error
        channel.tell(plan={**reported, "reason": f"what a break gives changes: {broken}"})
        recording.release()
        search.widen(_need(search, broken))


def _judged(search: Search) -> dict[str, Any]:
    """What the target's own marks leave to graphs that must not be there, and what they break out needlessly."""
    running = [op.frames for op in search.log.ops] + [visit.frames for visit in search.log.visits]
    graphed = [mark for mark in map(mark_of, plain.graphed) if mark is not None]
    reported = judged(search.causes, list(dict.fromkeys(running)), eager_marks(), graphed)
    return {key: [asdict(one) for one in found] for key, found in reported.items()}


def _code(session: Session, search: Search, reported: dict[str, Any]) -> dict[str, str | None]:
    """What applies the plan, or why there is no such code."""
    try:
        return {"text": emitted(session, search, headline(reported)), "why_not": None}
    except Unemittable as error:
        return {"text": None, "why_not": str(error)}


def _restart(start: Snapshot, recording: PlannedRecording) -> None:
    start.put_back()
    recording.settle()


def _against(replays: Replays) -> str | None:
    """What of the replays speaks against the plan."""
    reason = replays.against("the plan")
    if reason is None and replays.result["first_step"] not in ("pass", "skipped"):
        return "the plan leaves out what the first step fills in"
    return reason


def _untested(folder: Path) -> str | None:
    """Why replays that equal the reference prove too little."""
    reference, build = (read_result(folder, name) for name in ("reference", "build"))
    path: Any = reference.get("path") or {}
    if any(check["result"] == "different" for check in path.get("checks") or ()):
        return "while it is captured, the step computes something else than an eager step does"
    if not reference.get("varied"):
        return "no changed input changed the reference, so the plan was not put to the test"
    unvaried: Any = build.get("unvaried") or ()
    if unvaried:
        return f"{', '.join(unvaried[:3])} could not be varied: give a refresh that does"
    return None


def _record(session: Session, channel: Channel, search: Search, start: Snapshot) -> PlannedRecording | None:
    """The pass that captures is the last step of the warm-up. A failure is told, for the next child."""
    start.put_back()
    with session.device.capture_stream():
        for k in range(session.job.warmup - 1):
            session.seed(FIRST_SEED + k)
            session.step()
    session.seed(FIRST_SEED + session.job.warmup - 1)
    gc.collect()
    recording = record(session, search.regions, search.handed)
    if isinstance(recording, PlannedRecording):
        return recording
    channel.tell(failure=asdict(recording), plan={"reason": f"a segment cannot be captured: {recording.message}"})
    return None


def _need(search: Search, broken: GuardBroken) -> Need:
    visit = next(visit for visit in search.log.visits if visit.number == broken.number)
    kind: Any = "caller" if broken.name == "return" else "used"
    return Need(kind, "GS702", f"`{broken.name}` changes", visit.frames, broken.number, broken.name)


def _learned(reported: dict[str, Any]) -> list[Cause]:
    """What captures of segments in earlier children failed at."""
    return [
        Cause("GS607", failure["message"], tuple(CallSite(**frame) for frame in failure["frames"]))
        for failure in reported.get("failures") or ()
        if failure["frames"]
    ]
