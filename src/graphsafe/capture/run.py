"""One target on one device in one bucket: which children run when, and what their answers add up to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.findings import Seen
from graphsafe.capture.job import Job, job_of
from graphsafe.capture.lines.places import call_lines
from graphsafe.capture.long_run.growth import add_growth
from graphsafe.capture.plan.planning import Planning, compiled_text, of_plain_step
from graphsafe.capture.probes.capture import GONE
from graphsafe.capture.ranks.divergence import divergence_text
from graphsafe.capture.request import BAD_REQUEST, INTERNAL
from graphsafe.capture.trial import OWN_INPUTS
from graphsafe.report.model import Limit, Source
from graphsafe.report.text import bucket_name
from graphsafe.report.verdict import verdict

if TYPE_CHECKING:
    from graphsafe.capture.processes.child_process import Child
    from graphsafe.capture.processes.supervisor import Supervisor
    from graphsafe.capture.ranks.rank import Rank
    from graphsafe.capture.request import CaptureRequest

Probe = dict[str, Any]

_TRIES = "try "
_MOST_RETRIES = 3
_SHARE_OF_DEVICE = 0.8
_OF_TWIN = {BAD_REQUEST: "plan"}
"The step without its own graphs is nothing that was asked for."
_OUT_OF_MEMORY = ("OutOfMemoryError", "out of memory")


class Run:
    """`prove()` answers with what was seen; `limits` then holds what could not be."""

    def __init__(
        self,
        supervisor: Supervisor,
        request: CaptureRequest,
        device: str,
        axes: Mapping[str, Any],
        folder: Path,
        plain: bool = False,
        rank: Rank | None = None,
    ) -> None:
        """`plain`: the target without CUDA graphs of its own. `rank`: where several run it together; all of them then
        run the same children."""
        self.device = device
        self.axes = axes
        self.limits: list[Limit] = []
        self.seconds: dict[str, float] = {}
        self.spent: dict[str, Mapping[str, float]] = {}
        self._supervisor = supervisor
        self._request = request
        self._folder = folder
        self._results: dict[str, Mapping[str, Any]] = {}
        self._probes: dict[str, Probe] = {}
        self._planned: dict[str, Any] | None = None
        self._plain = plain
        self._rank = rank
        self._jobs = 0
        self._divergence: Mapping[int, Any] | None = None
        "What the ranks issued where they did not issue the same collectives."
        self.refresh: Mapping[str, Any] | None = None
        "Where the target's refresh is written, if it ran many times."
        self.own: Mapping[str, Any] = {}
        "Graphs and marks that the target has itself, and what is known against them."

    @property
    def source(self) -> Source:
        return "simulate" if self.device.startswith("sim") else "capture"

    @property
    def not_shared(self) -> str | None:
        """Why the children imported for themselves what one of them had imported before."""
        return self._supervisor.why_not_shared(self._job("build"))

    def prove(self) -> Seen:
        if self._build():
            self._step_reference_capture()
            self._after()
            if self._request.plan:
                self._plan()
        return self.seen()

    def seen(self) -> Seen:
        probes = self._probes
        return Seen(
            device=self.device,
            source=self.source,
            verdict=verdict(probes, self._planned),
            probes=probes,
            plan=self._planned,
            own=self.own or self._results.get("build", {}).get("own") or {},
            rank=None if self._rank is None else self._rank.number,
            divergence=self._divergence or {},
            **{name: self._results.get(name, {}) for name in ("build", "step", "reference", "capture", "diagnose")},
        )

    def _job(self, child: str, unvaried: tuple[str, ...] = ()) -> Job:
        more: dict[str, Any] = {"replays": self._request.replays, "plain": self._plain, "unvaried": unvaried}
        self._jobs += 1
        if self._rank is not None:
            more |= self._rank.job_fields(f"{self._folder.name.rpartition('-')[2]}-{child}-{self._jobs}")
        return job_of(self._request, child, self._folder, self.device, self.axes, **more)

    def _ended(self, child: Child) -> Mapping[str, Any]:
        """Note how a child ended; what it told is its answer, however far it came."""
        result = child.result
        if self._rank is not None:
            self._divergence = self._divergence or self._rank.coordinator.divergence(child)
        self.seconds[child.name] = round(self.seconds.get(child.name, 0.0) + child.seconds, 2)
        self.spent[child.name] = child.spent
        self._results[child.name] = result
        if child.ending == "failed":
            self.limits.append(Limit(INTERNAL, f"{child.name} {self._where}", child.how_it_ended()))
            return result
        for probe in ("step", "capture"):
            reported: Any = result.get(probe) or {}
            for what in reported.get("unknown_operations") or ():
                limit = Limit("simulated", what, "the simulated device cannot vouch for it")
                if limit not in self.limits:
                    self.limits.append(limit)
        if "state_error" in result:
            self.limits.append(Limit("state", f"{child.name} {self._where}", str(result["state_error"])))
        if child.ending != "done":
            why = child.how_it_ended()
            last = child.last_lines(3)
            text = f"{why}; it printed last: {' | '.join(last)}" if last else why
            self.limits.append(Limit("child", f"{child.name} {self._where}", text[:600]))
        return result

    @property
    def _where(self) -> str:
        return f"on {self.device}" if self._rank is None else f"of rank {self._rank.number} on {self.device}"

    def _wrong(self, line: str, child: Child) -> None:
        """Of several ranks, by the first one that failed: it is why the others did."""
        if any(limit.kind == BAD_REQUEST for limit in self.limits):
            return
        bucket = f" with {bucket_name(self.axes)}" if self.axes else ""
        if self._rank is None:
            self.limits.append(Limit(BAD_REQUEST, f"{self._request.target}{bucket}", line))
        elif self._rank.coordinator.first_to_fail(child):
            self.limits.append(Limit(BAD_REQUEST, f"{self._request.target}{bucket} in rank {self._rank.number}", line))
        else:
            self.limits.append(Limit("rank", f"{child.name} {self._where}", line))

    def _any(self, value: bool) -> bool:
        """Of a decision that all ranks have to make alike."""
        return value if self._rank is None else self._rank.any(value)

    def _all(self, value: bool) -> bool:
        return value if self._rank is None else self._rank.all(value)

    def _build(self) -> bool:
        """Whether there is something to go on with."""
        unvaried: tuple[str, ...] = ()
        for attempt in itertools.count():
            child = self._supervisor.run(self._job("build", unvaried))
            broken: Any = child.result.get("broken_by")
            if child.ending == "crashed" and child.phase.startswith(_TRIES):
                broken = child.phase.removeprefix(_TRIES)
            if self._rank is not None:
                broken = self._rank.first(broken)
            if broken is None or broken == OWN_INPUTS or attempt >= _MOST_RETRIES:
                break
            unvaried = (*unvaried, broken)
        return self._all(self._built(child, self._ended(child)))

    def _built(self, child: Child, result: Mapping[str, Any]) -> bool:
        construct: Probe = dict(result.get("construct") or {"status": "fail", "built": False, "captures": []})
        self._probes["construct"] = construct
        error = result.get("target_error")
        if error is not None:
            # A rank may see the others' connections close before it is ended itself.
            self._wrong(error["line"] if self._divergence is None else divergence_text(self._divergence), child)
            failed = {"status": "fail", "reason": error["line"], "calls": call_lines(error["calls"])}
            if error["stage"] == "step":
                self._probes["step"] = {**failed, "ran": False}
            else:
                construct |= {**failed, "built": False}
            return False
        if child.ending == "done":
            self.limits += [Limit(**limit) for limit in result.get("limits") or ()]
            unread: Any = result.get("unreadable") or {}
            self.limits += [Limit("not-compared", path, why) for path, why in unread.items()]
            return True
        if self._divergence is not None:
            self._wrong(divergence_text(self._divergence), child)
        status = {"timeout": "timeout", "stopped": "skipped"}.get(str(child.ending), "crashed")
        why = child.how_it_ended()
        if "construct" in result:
            self._probes["step"] = {"status": status, "ran": False, "reason": why}
        else:
            construct |= {"status": status, "built": False if status == "crashed" else None, "reason": why}
        if status == "crashed" and child.ending != "failed":
            self._wrong(why, child)
        return False

    def _step_reference_capture(self) -> None:
        names = ("step", "reference", "capture")
        if self._all(self._fits(len(names))):
            children = [self._supervisor.start(self._job(name)) for name in names]
            self._supervisor.wait(children, self._watch_reference)
            if self._any(self._ran_out(children[2])):
                self._again_alone(children[2].name)
                return
            for child in children:
                self._ended(child)
            self._read(children[2])
            return
        self.limits.append(Limit("sequential", self.device, "its memory holds one build at a time"))
        last = [self._alone(name) for name in names][-1]
        self._read(last)

    def _alone(self, name: str) -> Child:
        child = self._supervisor.run(self._job(name))
        self._watch_reference(child)
        self._ended(child)
        return child

    def _again_alone(self, name: str) -> None:
        for file in (f"{name}.result", f"{name}.phases"):
            (self._folder / file).unlink(missing_ok=True)
        self._read(self._alone(name))

    def _ran_out(self, child: Child) -> bool:
        error: Any = child.result.get("target_error") or {}
        return any(text in error.get("line", "") for text in _OUT_OF_MEMORY)

    def _watch_reference(self, child: Child) -> None:
        """The capture child waits for files of the reference; tell it when there will be none."""
        without = child.ending != "done" or "target_error" in child.result or "state_error" in child.result
        if child.name == "reference" and without:
            (self._folder / GONE).touch()

    def _fits(self, count: int) -> bool:
        memory = self._results["build"].get("memory") or {}
        free, peak = memory.get("free"), memory.get("peak")
        return free is None or peak is None or count * peak < _SHARE_OF_DEVICE * (free + peak)

    def _read(self, capture: Child) -> None:
        step, reference = self._results.get("step", {}), self._results.get("reference", {})
        for name in ("step", "state"):
            self._probes[name] = dict(step.get(name) or {"status": "skipped"})
        for result in (step, reference):
            error = result.get("target_error")
            if error is not None:
                self._probes["step"] |= {"status": "fail", "ran": False, "reason": error["line"]}
        self._read_capture(capture, capture.result)
        self._probes["memory"] = self._held(step.get("held") or {})
        if self._probes["capture"]["status"] == "pass":
            replay = self._probes["replay"]
            replay["varied"] = reference.get("varied")
            replay["unvaried"] = self._results["build"].get("unvaried")
            path: Any = reference.get("path") or {}
            replay["checks"] = [*(replay.get("checks") or ()), *(path.get("checks") or ())]
            if path.get("refused"):
                why = f"the step cannot be run eagerly as if it were captured: {path['refused']}"
                self.limits.append(Limit("capture-path", self._request.target, why))
            if any(check["result"] == "different" for check in replay["checks"]) and replay["status"] == "pass":
                replay["status"] = "fail"

    def _held(self, reported: Mapping[str, Any]) -> Probe:
        """What the step child saw of memory; a pool is only spoken of where there is a graph."""
        captured = self._probes["capture"]["status"] == "pass"
        if "failed" in reported and (captured or "step" not in reported):
            self.limits.append(Limit("memory", self.device, f"the step cannot be run once more: {reported['failed']}"))
        held = {name: reported.get(name) if captured or name == "step" else None for name in ("step", "pool")}
        return {"status": "pass" if held["step"] else "skipped", **held}

    def _read_capture(self, child: Child, result: Mapping[str, Any]) -> None:
        capture: Probe = dict(result.get("capture") or {"status": "skipped", "reason": "it was not reached"})
        replay: Probe = dict(result.get("replay") or {"status": "skipped", "checks": []})
        error: Any = result.get("target_error")
        if error is not None and capture["status"] != "pass":
            capture |= {"status": "skipped", "reason": error["line"]}
            self._wrong(error["line"], child)
        elif error is not None:
            replay |= {"status": "fail", "first_error": {"message": error["line"]}}
        elif child.ending != "done":
            status = "timeout" if child.ending == "timeout" else "crashed" if child.ending == "crashed" else "skipped"
            why = child.how_it_ended()
            if capture["status"] != "pass":
                phase = "capture" if child.phase == "capture" else "warm-up" if "warm-up" in child.phase else "build"
                capture |= {"status": status, "phase": phase, "reason": why}
            elif "rng_law" not in replay:
                waiting = child.phase.startswith("wait")
                replay |= {"status": "skipped" if waiting else status, "reason": why}
            elif status == "timeout":
                replay["first_step"] = "timeout"
        self._probes["capture"], self._probes["replay"] = capture, replay
        twin: Probe = dict(result.get("twin") or {"status": "skipped"})
        if twin["status"] == "crashed" and child.ending == "timeout":
            twin |= {"status": "timeout", "reason": child.how_it_ended()}
        self._probes["twin"] = twin

    def _after(self) -> None:
        capture, replay = self._probes["capture"], self._probes["replay"]
        died = capture["status"] == "crashed" and capture.get("phase") == "capture"
        # What twin captures explain needs no other explanation.
        unexplained = replay["status"] == "fail" and self._probes["twin"]["status"] != "fail"
        wrong = capture["status"] == "pass" and (capture.get("empty") or unexplained)
        if self._any(bool(capture["status"] == "fail" or died or wrong)):
            self._alone("diagnose")
        captured = capture["status"] == "pass" and not capture.get("empty")
        wanted = self.source == "capture" or self._request.replays is not None
        if self._all(captured) and wanted:
            measured = self._ended(self._supervisor.run(self._job("measure")))
            self._probes["memory"] |= measured.get("memory") or {}
            self._probes["timing"] = dict(measured.get("timing") or {"status": "skipped"})
            if "growth" in measured:
                add_growth(self._probes, measured["growth"])
                self.refresh = measured["growth"]["refresh"]

    def _plan(self) -> None:
        own = {**(self._results["build"].get("own") or {}), "marks": self._results.get("step", {}).get("marks")}
        if not self._plain and (own.get("replays") or own.get("compiled")):
            self._plan_without_own_graphs(own)
            return
        planning = Planning(self._request, self._folder, self._job, self._run, self._probes, own)
        self._planned = planning.plan()
        self.limits += planning.limits
        self.own = {**own, "marks": planning.marks}

    def _plan_without_own_graphs(self, own: Mapping[str, Any]) -> None:
        """What is planned then is another step, on which the verdict does not rest."""
        folder = self._folder / "plain"
        folder.mkdir()
        twin = Run(self._supervisor, self._request, self.device, self.axes, folder, plain=True)
        plan = twin.prove().plan
        self.limits += [replace(limit, kind=_OF_TWIN.get(limit.kind, limit.kind)) for limit in twin.limits]
        for name in twin.seconds:
            self.seconds[f"plain {name}"], self.spent[f"plain {name}"] = twin.seconds[name], twin.spent[name]
        self.own = {**own, "marks": twin.own.get("marks") or {}}
        target = self._request.target
        if own["compiled"]:
            self._planned = of_plain_step(plan, "torch.compile")
            _, result = self._run(self._job("compiled"))
            compiled = result.get("compiled")
            if compiled is not None:
                self._probes["step"]["compiled"] = compiled
                self.limits.append(Limit("compiled", target, compiled_text(compiled, plan)))
            return
        self._planned = of_plain_step(plan, "its own graphs")
        if not twin.own.get("replays"):
            _, result = self._run(replace(twin._job("given"), plain=False))
            self.own = {**self.own, "given": result.get("given") or {}}

    def _run(self, job: Job) -> tuple[Child, Mapping[str, Any]]:
        child = self._supervisor.run(job)
        return child, self._ended(child)
