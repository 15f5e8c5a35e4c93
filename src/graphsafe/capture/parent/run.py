"""Proves one target on one device in one bucket: runs the children and combines their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphsafe.capture.answers.build import Built, Constructed, DeviceMemory, Ended, Limits, TargetFailure, Varied
from graphsafe.capture.answers.probes import ComparedRounds, LongRun, Marks, OwnGraphs, Ran, Reference, StepMemory
from graphsafe.capture.parent.growth import with_long_run
from graphsafe.capture.parent.jobs import broken_by, fits, job_of, not_built
from graphsafe.capture.parent.limits import limits_of
from graphsafe.capture.parent.probes import (
    DeviceAnswers,
    capture_of,
    confirmed,
    may_be_chance,
    measured,
    memory_of,
    replay_of,
    step_of,
    twin_of,
    with_events,
    with_harmless_state,
    with_reference,
    with_rounds,
)
from graphsafe.capture.parent.ranks.divergence import divergence_text
from graphsafe.capture.parent.ranks.rank import Rank
from graphsafe.capture.parent.supervision.child_process import Child
from graphsafe.capture.parent.supervision.device_use import ran_out_of_memory
from graphsafe.capture.parent.supervision.supervisor import Supervisor
from graphsafe.capture.plan.parent.planning import Planning, compiled_text, of_plain_step
from graphsafe.capture.request import BAD_REQUEST, INTERNAL, CaptureRequest
from graphsafe.capture.shared.answers import Answers
from graphsafe.capture.shared.collectives import Call
from graphsafe.capture.shared.job import EAGER_ROUNDS, REFERENCE, Job, ended_marker, forget
from graphsafe.capture.shared.places import call_lines
from graphsafe.report.model import Limit, Plan, Source
from graphsafe.report.probes import Probes
from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.construct import Construct
from graphsafe.report.probes.memory import Memory
from graphsafe.report.probes.replay import Replay
from graphsafe.report.probes.step import Compiled, Step
from graphsafe.report.probes.timeline import Timeline
from graphsafe.report.text import bucket_name
from graphsafe.report.verdict import verdict

_MOST_BUILDS = 4
"""The largest number of build children. A later child does not vary the inputs whose new values broke the process of an
earlier child."""
_OF_TWIN = {BAD_REQUEST: "plan"}
"""Kind of a limit -> its kind if it comes from the run without the target's own graphs. A wrong request in that run is
not the user's mistake."""
_NO_TIMELINE = "not requested; `-o trace.json` or `-o page.html` requests it"
_NOT_BUILT = Construct("fail", built=False, captures=())


@dataclass
class Run:
    """The proof of one bucket. `prove()` returns the answers. Afterwards `limits` names everything that could not be
    determined."""

    supervisor: Supervisor
    request: CaptureRequest
    device: str
    axes: Mapping[str, Any]
    folder: Path
    plain: bool = False
    "Whether the target is run without CUDA graphs of its own."
    rank: Rank = field(default_factory=Rank)
    "The rank of this run. If several ranks run the target together, all of them run the same children."
    limits: list[Limit] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    spent: dict[str, Mapping[str, float]] = field(default_factory=dict)
    _answers: Answers = field(default_factory=Answers)
    _children: dict[str, Child] = field(default_factory=dict)
    _probes: Probes = field(default_factory=Probes)
    _planned: Plan | None = None
    _jobs: int = 0
    _divergence: Mapping[int, Call | None] | None = None
    "For each rank, its first collective that does not match those of the others."
    _marks: Marks = field(default_factory=Marks)

    @property
    def source(self) -> Source:
        return "simulate" if self.device.startswith("sim") else "capture"

    def prove(self) -> DeviceAnswers:
        if self.request.shapes:
            self._predict()
        elif self._build():
            self._step_reference_capture()
            self._after()
            self._blame_target()
            if self.request.plan or (self.request.breaks and verdict(self._probes) != "ready"):
                self._plan()
        return self.seen()

    def seen(self) -> DeviceAnswers:
        judged = verdict(self._probes, self._planned)
        return DeviceAnswers(
            device=self.device,
            source=self.source,
            verdict=judged,
            probes=with_harmless_state(self._probes) if judged == "ready" else self._probes,
            answers=self._answers,
            plan=self._planned,
            marks=self._marks,
            rank=self.rank.reported,
            divergence=self._divergence or {},
        )

    def _job(self, child: str, unvaried: tuple[str, ...] = ()) -> Job:
        more: dict[str, Any] = {"replays": self.request.replays, "plain": self.plain, "unvaried": unvaried}
        self._jobs += 1
        more |= self.rank.job_fields(f"{self.folder.name.rpartition('-')[2]}-{child}-{self._jobs}")
        return job_of(self.request, child, self.folder, self.device, self.axes, **more)

    def _ended(self, child: Child) -> Ended:
        """Record the answers of a child that has ended. Return how it ended."""
        answers, end = child.answers, child.ended
        self._divergence = self._divergence or self.rank.coordinator.divergence(child)
        self.seconds[child.name] = round(self.seconds.get(child.name, 0.0) + child.seconds, 2)
        self.spent[child.name] = child.spent
        self._answers |= answers
        self._probes = self._probes.with_found(answers.get)
        self._children[child.name] = child
        if end.how == "fault":
            self.limits.append(Limit(INTERNAL, f"{child.name} {self._where}", end.why))
            return end
        for what in (*(answers[Step].unknown_operations or ()), *(answers[Capture].unknown_operations or ())):
            limit = Limit("simulated", what, "the simulated device cannot predict it")
            if limit not in self.limits:
                self.limits.append(limit)
        if end.how == "state":
            self.limits.append(Limit("state", f"{child.name} {self._where}", end.why))
        if not end.by_itself:
            last = child.last_lines(3)
            text = f"{end.why}; it printed last: {' | '.join(last)}" if last else end.why
            self.limits.append(Limit("child", f"{child.name} {self._where}", text[:600]))
        return end

    @property
    def _where(self) -> str:
        return f"{self.rank.named('of')} on {self.device}".lstrip()

    def _wrong(self, line: str, child: Child) -> None:
        """Add the reason why the request is wrong. Of several ranks, only the first to fail adds the reason."""
        if any(limit.kind == BAD_REQUEST for limit in self.limits):
            return
        bucket = f" with {bucket_name(self.axes)}" if self.axes else ""
        if self.rank.coordinator.first_to_fail(child):
            self.limits.append(Limit(BAD_REQUEST, f"{self.request.called}{bucket}{self.rank.named('in')}", line))
        else:
            self.limits.append(Limit("rank", f"{child.name} {self._where}", line))

    def _build(self) -> bool:
        """Run the build child. Run it again if the new values of an input broke the child's process, by a crash or by
        an assertion on the device. Return whether the proof can go on."""
        unvaried: tuple[str, ...] = ()
        for _ in range(_MOST_BUILDS):
            child = self.supervisor.run(self._job("build", unvaried))
            broken = self.rank.first(broken_by(child))
            if broken is None:
                break
            unvaried += (broken,)
        self._ended(child)
        return self.rank.all(self._built(child))

    def _built(self, child: Child) -> bool:
        answers, end = child.answers, child.ended
        construct, step = answers.get(Construct), Step()
        failure = answers.get(TargetFailure)
        if failure is not None:
            # If the ranks diverged, a rank may fail only because others closed their connections.
            self._wrong(failure.line if self._divergence is None else divergence_text(self._divergence), child)
            calls = tuple(call_lines(failure.calls))
            if failure.stage == "step":
                step = Step("fail", failure.line, calls, ran=False)
            else:
                construct = replace(
                    construct or _NOT_BUILT, status="fail", reason=failure.line, calls=calls, built=False
                )
        elif end.by_itself:
            self.limits += answers[Limits].limits
            self.limits += [Limit("not-compared", path, why) for path, why in answers[Constructed].unreadable.items()]
        else:
            if self._divergence is not None:
                self._wrong(divergence_text(self._divergence), child)
            status = "crashed" if end.how == "fault" else end.status
            if construct is not None:
                step = Step(status, end.why, ran=False)
            else:
                built = False if status == "crashed" else None
                construct = replace(_NOT_BUILT, status=status, built=built, reason=end.why)
            if end.how == "crashed":
                self._wrong(end.why, child)
        self._probes = replace(self._probes, construct=construct or _NOT_BUILT, step=step)
        return end.by_itself and failure is None

    def _step_reference_capture(self) -> None:
        names = ("step", "reference", "capture")
        children = self._side_by_side(*names)
        if children:
            capture = children[2]
            again = self.rank.any(capture.ended.how == "target" and ran_out_of_memory(capture.ended.why))
            for child in children[:2] if again else children:
                self._ended(child)
            if again:
                forget(capture.job)
                capture = self._run(self._job(capture.name))
        else:
            capture = [self._run(self._job(name)) for name in names][-1]
        self._read(capture)

    def _side_by_side(self, *names: str) -> list[Child]:
        """Run these children side by side. Return an empty list if they have to run one after the other."""
        why: str | None = "its memory has room for only one build at a time"
        if self.rank.all(fits(self._answers[DeviceMemory], len(names))):
            children = [self.supervisor.start(self._job(name)) for name in names]
            self.supervisor.wait(children, self._tell_end)
            why = not_built(children)
            if not self.rank.any(why is not None):
                return children
            for child in children:
                forget(child.job)
        limit = Limit("sequential", self.device, why or "another rank cannot build several at a time")
        self.limits += [] if limit in self.limits else [limit]
        return []

    def _tell_end(self, child: Child) -> None:
        """If other children wait for files of this child, tell them that it has ended."""
        if child.name in (REFERENCE, EAGER_ROUNDS):
            (self.folder / ended_marker(child.name)).touch()

    def _predict(self) -> None:
        """Predict the result from shapes alone, in one child."""
        child = self._run(self._job("shapes"))
        if self._built(child):
            self._probes = replace(self._probes, step=step_of(child.answers))

    def _read(self, child: Child) -> None:
        """Combine the answers of the step child, the reference child and the capture child (`child`)."""
        answers, end = self._answers, child.ended
        capture = capture_of(answers, end, child.phase)
        if end.how == "target" and capture.status != "pass":
            self._wrong(end.why, child)
        step, reference = (self._children[name].ended for name in ("step", "reference"))
        replay = replay_of(answers, end, child.phase, capture, reference)
        if capture.status == "pass":
            replay = with_reference(replay, answers)
        self.limits += limits_of(answers, capture.status == "pass", self.request.called, self.device)
        self._probes = replace(
            self._probes,
            step=step_of(answers, step, reference),
            capture=capture,
            replay=replay,
            twin=twin_of(answers, end),
            memory=memory_of(answers[StepMemory], capture),
        )

    def _after(self) -> None:
        self._capture_again()
        capture, replay = self._probes.capture, self._probes.replay
        died = capture.status == "crashed" and capture.phase == "capture"
        # If twin captures explain a difference, it needs no further explanation.
        unexplained = replay.status == "fail" and not self._probes.twin.explains
        wrong = capture.status == "pass" and (capture.empty or unexplained)
        if self.rank.any(bool(capture.status == "fail" or died or wrong)):
            self._run(self._job("diagnose"))
        captured = capture.status == "pass" and not capture.empty
        if self._answers[Built].events and self.rank.all(bool(captured and replay.checks)):
            self._fire_events()
        passes = self._probes.replay.status == "pass" and self._answers[Reference].event_failed is None
        if self.rank.all(self._answers[Built].has_refresh and passes):
            self._compare_rounds()
        wanted = self.source == "capture" or self.request.replays is not None
        if self.rank.all(captured) and wanted:
            self._measure()
        if self.source == "capture":
            self._probes = replace(self._probes, timeline=self._timeline(captured))

    def _capture_again(self) -> None:
        """If replays differ for an unknown reason, check whether they differ in a second capture too."""
        if self.source != "capture" or not self.rank.any(may_be_chance(self._probes)):
            return
        job = self._job("capture")
        forget(job)
        child = self.supervisor.run(job)
        self.seconds["second capture"], self.spent["second capture"] = round(child.seconds, 2), child.spent
        self._probes = replace(self._probes, replay=confirmed(self._probes.replay, child.answers[Replay]))

    def _timeline(self, captured: bool) -> Timeline:
        """Return the timeline of the step, if the user has asked for it and if the step runs."""
        if not self.request.timeline:
            return Timeline(reason=_NO_TIMELINE)
        if not self.rank.all(bool(self._probes.step.ran)):
            return Timeline(reason="the step does not run")
        child = self._run(replace(self._job("timeline"), captured=self.rank.all(captured)))
        return child.answers.get(Timeline) or Timeline(child.ended.status, child.ended.why)

    def _fire_events(self) -> None:
        """Compare replays after the target's events, in a separate child. A difference in these replays changes the
        verdict, as in all other replays."""
        end = self._run(self._job("events")).ended
        failed = self._answers[Reference].event_failed
        if end.how == "target" and failed is None:
            self.limits.append(Limit("events", self.request.called, end.why))
        replay = with_events(self._probes.replay, self._answers, len(self._answers[Built].events), failed or end.why)
        self._probes = replace(self._probes, replay=replay)
        if self.rank.all(replay.status == "pass"):
            self._run(self._job("choices"))

    def _compare_rounds(self) -> None:
        """Compare many rounds of the target's refresh, in two children."""
        names = (EAGER_ROUNDS, "rounds")
        children = self._side_by_side(*names)
        for child in children:
            self._ended(child)
        end = (children or [self._run(self._job(name)) for name in names])[-1].ended
        self._probes = with_rounds(self._probes, self._answers[ComparedRounds])
        if end.how != "done":
            self.limits.append(Limit("rounds", self.request.called, f"further rounds were not compared: {end.why}"))

    def _blame_target(self) -> None:
        """Report a failure of the reference as a limit. If the verdict needs the reference and the step never asked
        whether a capture is under way, report the failure as a fault of the request (`BAD_REQUEST`)."""
        child, answers = self._children["reference"], self._answers[Reference]
        why = child.ended.why if child.ended.how == "target" else answers.event_failed
        if why is None or ran_out_of_memory(why):
            return
        if verdict(self._probes) == "inconclusive" and not answers.asked:
            self._wrong(why, child)
        else:
            self.limits.append(Limit("reference", self.request.called, why))

    def _measure(self) -> None:
        of_step, replay = self._probes.memory, self._probes.replay
        self._run(self._job("measure"))
        answers = self._answers.get(Memory)
        memory = of_step if answers is None else measured(of_step, answers)
        run = self._answers.get(LongRun)
        if run is not None:
            memory, replay = with_long_run(memory, replay, run)
        self._probes = replace(self._probes, memory=memory, replay=replay)

    def _plan(self) -> None:
        if self.request.nproc is not None:
            self.limits.append(Limit("plan", self.request.called, "nothing was planned: it runs in several ranks"))
            return
        own = self._answers[OwnGraphs]
        if not self.plain and (own.replays or own.compiled):
            self._plan_without_own_graphs(own)
            return
        unvaried = self._answers[Varied].unvaried or ()
        planning = Planning(self.request, self.folder, self._job, self._run, self._probes, own.replays, unvaried)
        self._planned = planning.plan()
        self.limits += planning.limits
        ready = verdict(self._probes) == "ready"
        self._marks = Marks(needless=self._answers[Ran].marks) if ready else planning.marks

    def _plan_without_own_graphs(self, own: OwnGraphs) -> None:
        """Plan the step without its own graphs. The verdict still describes the step with its graphs."""
        folder = self.folder / "plain"
        folder.mkdir()
        planned = replace(self.request, plan=True)
        twin = Run(self.supervisor, planned, self.device, self.axes, folder, plain=True)
        plan = twin.prove().plan
        self.limits += [replace(limit, kind=_OF_TWIN.get(limit.kind, limit.kind)) for limit in twin.limits]
        for name in twin.seconds:
            self.seconds[f"plain {name}"], self.spent[f"plain {name}"] = twin.seconds[name], twin.spent[name]
        self._marks = twin._marks
        if not own.compiled:
            self._planned = of_plain_step(plan, "its own graphs")
            if not twin._answers[OwnGraphs].replays:
                self._run(replace(twin._job("given"), plain=False))
            return
        self._planned = of_plain_step(plan, "torch.compile")
        self._run(self._job("compiled"))
        compiled = self._answers.get(Compiled)
        if compiled is not None:
            self._probes = replace(self._probes, step=replace(self._probes.step, compiled=compiled))
            self.limits.append(Limit("compiled", self.request.called, compiled_text(compiled, plan)))

    def _run(self, job: Job) -> Child:
        child = self.supervisor.run(job)
        self._tell_end(child)
        self._ended(child)
        return child
