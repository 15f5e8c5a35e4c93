"""Plans in a child: finds breaks, captures the code between them, replays the step on new inputs, and compares with the
reference as the capture child does. A failed capture ends the child. The next child starts with the causes that were
found."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from graphsafe.capture.answers.build import Varied
from graphsafe.capture.answers.plan import Emitted, Learned, Planned, SegmentFailure
from graphsafe.capture.answers.probes import Marks, Missing, Reference
from graphsafe.capture.child.own_graphs import plain
from graphsafe.capture.child.own_graphs.plain import eager_marks, mark_of
from graphsafe.capture.child.probes.capture import Replays, given_reference
from graphsafe.capture.child.probes.horizon import run_further_steps
from graphsafe.capture.child.session import Session, opened
from graphsafe.capture.child.state import Snapshot
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.plan.child.call import Call, GuardBroken
from graphsafe.capture.plan.child.causes import Cause, judged, known_causes, rebindings
from graphsafe.capture.plan.child.emit import Unemittable, emitted
from graphsafe.capture.plan.child.freezes import Need
from graphsafe.capture.plan.child.host_lines import host_causes
from graphsafe.capture.plan.child.plan_data import planned, timed
from graphsafe.capture.plan.child.rewrite import cut
from graphsafe.capture.plan.child.runtime import PlannedRecording, record
from graphsafe.capture.plan.child.search import Search, Unplannable
from graphsafe.capture.plan.child.split import Split
from graphsafe.capture.plan.child.watch import watched
from graphsafe.capture.plan.shared.regions import function_with
from graphsafe.capture.shared.answers import Answers
from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.job import Channel, Job, read_answers
from graphsafe.capture.shared.places import line_text
from graphsafe.report.model import CallSite, Plan
from graphsafe.report.plan_text import headline
from graphsafe.report.probes.horizon import Horizon
from graphsafe.rulebook.book import load_rulebook

_MOST_ATTEMPTS = 6
"""The largest number of captures in this process. Another capture follows only if replays show that the last one froze
a value."""


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        given = given_reference(session)
        if given is None:
            channel.send(Planned().because("there is no independent reference to verify a plan with"))
            return
        built, reference = given
        split = Split(channel.folder)
        try:
            _plan(session, channel, reference, built, split)
        except Unplannable as error:
            channel.send(Planned().because(split.in_words(str(error))))
        except TargetError as error:
            error.line = split.in_words(error.line)
            raise


def _plan(session: Session, channel: Channel, reference: Any, built: Any, split: Split) -> None:
    folder = channel.folder
    answers = Answers()
    for child in ("build", "step", "reference", "capture", "diagnose", "learned"):
        answers |= read_answers(folder, child)
    table = load_rulebook().ops
    start = Snapshot(session.device, session.subject)
    session.warm_up_on_capture_stream()
    on_host, begin = host_causes(session, answers)
    causes = [*known_causes(answers, table), *on_host]
    failures = [failure for failure in answers[Learned].failures if failure.frames]
    causes += [Cause("GS607", failure.message, failure.frames, span=failure.span) for failure in failures]
    # If there are marks, no statements are split, because marks refer to the target's own functions.
    if not eager_marks() and not plain.graphed:
        running = [op.frames for op in watched(session, (), (), table).ops]
        split.take_apart(causes, running, [failure.frames for failure in failures if failure.whole])
    search = Search(session, begin, table, rebindings(answers), split)
    search.blame(causes)
    for attempt in range(_MOST_ATTEMPTS):
        search.find()
        if answers[Horizon].status == "fail":
            search.start.put_back()
            try:
                later = departure(session, search)
            except GuardBroken as error:
                channel.send(Planned().because(_changing(search, error)))
                search.widen(_need(search, error))
                continue
            if later is not None:
                raise Unplannable(f"between the breaks, {later}")
        if not any(op.visit is None and op.launches for op in search.log.ops):
            found = planned(search, None, timed(session, search))
            paid = "no graph saves more than it costs"
            reason = paid if found.too_short else "every operation of the step has to run eagerly"
            channel.send(found.because(reason), _judged(search))
            return
        channel.phase(f"capture segments, attempt {attempt + 1}")
        recording = _record(session, channel, search, start)
        if recording is None:
            return
        replays = Replays(session, recording, reference, partial(_restart, start, recording))
        # A plan cannot replace the first step. The result then says that the first step was not checked.
        with contextlib.suppress(TargetError):
            replays.run(built)
        broken = replays.error
        found = planned(search, recording)
        if not isinstance(broken, GuardBroken):
            against = _against(replays)
            against = _untested(answers) if against is None else split.in_words(against)
            channel.send(found.because(against), _judged(search))
            if against is not None:
                return
            try:
                found = planned(search, recording, timed(session, search, recording))
                plan = replace(found.plan, verified=True)
                channel.send(replace(found, plan=plan), _code(session, search, plan))
                return
            except GuardBroken as error:
                broken = error
        channel.send(found.because(_changing(search, broken)))
        recording.release()
        search.widen(_need(search, broken))


def _changing(search: Search, broken: GuardBroken) -> str:
    name = search.split.named(function_with(search.regions[broken.number]), broken.name)
    return f"the result of a break changes: {name}: {broken.why}"


def _judged(search: Search) -> Marks:
    """Judge the target's own marks: return missing breaks, and functions that need not be marked."""
    running = [op.frames for op in search.log.ops] + [visit.frames for visit in search.log.visits]
    running, causes = list(map(search.split.original, running)), list(map(search.with_original_lines, search.causes))
    graphed = [mark for mark in map(mark_of, plain.graphed) if mark is not None]
    missing, needless = judged(causes, list(dict.fromkeys(running)), eager_marks(), graphed)
    return Marks(
        tuple(Missing(cause.code, cause.reason, cause.frames) for cause in missing),
        tuple(CallSite(mark.path, mark.line, mark.function) for mark in needless),
    )


def _code(session: Session, search: Search, plan: Plan) -> Emitted:
    try:
        return Emitted(emitted(session, search, headline(plan)))
    except Unemittable as error:
        return Emitted(why_not=str(error))


def _restart(start: Snapshot, recording: PlannedRecording) -> None:
    start.put_back()
    recording.settle()


def _against(replays: Replays) -> str | None:
    """Return the reason why the replays disprove the plan, or None."""
    reason = replays.against("the plan")
    if reason is None and replays.result.first_step not in ("pass", "skipped"):
        return "the plan misses state that the first step initializes"
    return reason


def _untested(answers: Answers) -> str | None:
    """Return the reason why replays are not enough proof although they equal the reference, or None."""
    reference, unvaried = answers[Reference], answers[Varied].unvaried_host
    if reference.differs:
        return "the captured step computes something other than the eager step"
    if not reference.varied:
        return "no changed input changed the reference, so the plan was not tested"
    # Only inputs on the host matter here. Only breaks read values of the device, and each break checks that it returns
    # the same numbers as at capture. So inputs on the device need not be varied.
    if unvaried:
        return f"{', '.join(unvaried[:3])} could not be varied: give them new values in refresh"
    return None


def _record(session: Session, channel: Channel, search: Search, start: Snapshot) -> PlannedRecording | None:
    """Capture the plan, in the last step of the warm-up. A failure is reported for the next child."""
    start.put_back()
    session.warm_up_but_last()
    gc.collect()
    recording = record(session, search.regions, search.handed)
    if isinstance(recording, PlannedRecording):
        return recording
    reason = f"a segment cannot be captured: {recording.message}"
    frames, span = recording.frames, recording.span
    span = search.split.part(frames[-1], span) if frames else None
    failure = SegmentFailure(recording.message, frames=search.split.original(frames), span=span)
    channel.send(failure, Planned().because(reason))
    return None


def _need(search: Search, broken: GuardBroken) -> Need:
    visit = next(visit for visit in search.log.visits if visit.number == broken.number)
    kind: Any = "caller" if broken.name == "return" else "used"
    return Need(kind, "GS702", f"`{broken.name}` changes", visit.frames, broken.number, broken.name)


def departure(session: Session, search: Search) -> str | None:
    """Compare the code between breaks in a later step and in the first step. Return the first difference, or None. The
    comparison changes the state. Raises GuardBroken if, before a difference is found, a break passes on another number
    or size."""
    steps = _Steps(session, search)
    with cut(search.regions, steps.visit):
        ahead = run_further_steps(session, lambda: steps.inside)
    if steps.broken is not None:
        raise steps.broken
    if ahead.departure is None:
        return None
    frames = ahead.departure.frames
    return ahead.text() + (f" ({line_text(frames[-1])})" if frames else "")


class _Steps:
    def __init__(self, session: Session, search: Search) -> None:
        self._session = session
        self._handed = search.handed
        self._number = len(search.log.visits)
        "Number of visits of breaks in a step."
        self._first: list[Call] = []
        "The visits in the first step."
        self._calls: list[Call] = []
        "The visits in the current step so far."
        self.inside = False
        self.broken: GuardBroken | None = None

    def visit(self, number: int, eager: Callable[[], Any], outputs: tuple[str, ...]) -> Any:
        if self.inside:
            return eager()
        if len(self._calls) == self._number:
            self._calls = []
        call = Call(number, eager, outputs, self._handed[number], self._session, user_frames()[0])
        self.inside = True
        try:
            result = call.run(self._calls)
        finally:
            self.inside = False
        self._calls.append(call)
        self._compare(call, len(self._calls) - 1)
        return result

    def _compare(self, call: Call, at: int) -> None:
        if len(self._first) < self._number:
            self._first.append(call)
        elif self.broken is None:
            try:
                self._first[at].compare(call)
            except GuardBroken as error:
                self.broken = error
                raise
