"""Plans one step: runs the children that search, passes the failures of each child to the next, and writes the code
that applies the plan."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphsafe.capture.answers.plan import Checked, Emitted, Learned, Planned, SegmentFailure
from graphsafe.capture.answers.probes import Marks
from graphsafe.capture.parent.supervision.child_process import Child
from graphsafe.capture.parent.supervision.device_use import ran_out_of_memory
from graphsafe.capture.plan.shared.marks import CODE, marks
from graphsafe.capture.request import CaptureRequest
from graphsafe.capture.shared.job import Job, forget, write_answers
from graphsafe.capture.shared.places import listed_places
from graphsafe.files import write_atomically
from graphsafe.report.model import CallSite, Limit, Plan, Segment
from graphsafe.report.probes import Probes
from graphsafe.report.probes.step import Compiled
from graphsafe.report.text import count
from graphsafe.report.verdict import verdict

_MOST_CHILDREN = 8
"""The largest number of children that plan. These children run one after another, each with the failures of earlier
captures."""


@dataclass
class Planning:
    """The planning of one step. `plan()` returns the plan. If there is no plan, `plan()` returns None, and `limits` has
    the reason."""

    request: CaptureRequest
    folder: Path
    job: Callable[[str], Job]
    run: Callable[[Job], Child]
    "Runs a child and records how it ended."
    probes: Probes
    own_replays: Sequence[Sequence[CallSite]]
    "The call stacks at which the step replays graphs of its own."
    unvaried: Sequence[str]
    limits: list[Limit] = field(default_factory=list)
    marks: Marks = field(default_factory=Marks)

    def plan(self) -> Plan | None:
        judged = verdict(self.probes)
        if judged == "ready":
            return self._without_code(whole(self.probes))
        if judged == "inconclusive" or self.request.warmup < 2:
            why = "it needs two steps of warm-up" if judged == "not-ready" else "whether the step is ready is not known"
            self._limit("plan", f"nothing was planned: {why}")
            return self._without_code(None)
        if self.own_replays:
            places = listed_places(self.own_replays)
            own = f"the step replays graphs of its own ({places})"
            why = f"{own}, which no reference checks: pass the function that these graphs capture"
            return self._without_code(Plan(reason=why))
        child = self._search()
        answers, end = child.answers, child.ended
        planned = answers[Planned]
        if not end.by_itself:
            planned = planned.because(f"planning: {end.why}")
        elif end.how == "target":
            planned = planned.because(f"planning failed: {end.why}")
        self.marks = answers[Marks]
        if planned.too_short:
            short = count(planned.too_short, "more operation")
            self._limit("plan", f"{short} could be captured, but too few in a row to pay for a graph")
        kept = (f"`{path}` kept its values in all steps that were tried" for path in self.unvaried)
        found = replace(planned.plan, guards=(*planned.plan.guards, *kept))
        if not found.verified:
            return self._without_code(found)
        if self.request.emit is not None or self.request.check:
            self._emit(found, answers[Emitted])
        return found

    def _without_code(self, plan: Plan | None) -> Plan | None:
        """Return the plan. If code was asked for, add a limit with the reason why there is none."""
        if self.request.emit is not None or self.request.check:
            self._limit_code("there is no plan" if plan is None else str(plan.reason))
        return plan

    def _search(self) -> Child:
        """Run the planning child. Run it again after each segment whose capture fails, and tell it all failures so
        far."""
        known: list[SegmentFailure] = []
        job = self.job("plan")
        for _ in range(_MOST_CHILDREN):
            write_answers(self.folder, "learned", Learned(tuple(known)))
            forget(job)
            child = self.run(job)
            failure = child.answers.get(SegmentFailure)
            if failure is None or not failure.frames or ran_out_of_memory(failure):
                break
            known = learned(known, failure)
        return child

    def _emit(self, plan: Plan, code: Emitted) -> None:
        """Test the code that applies the plan by running it, then write the code to its file. If no code is written, a
        limit has the reason."""
        request = self.request
        text = code.text if request.emit_for is None else marks(plan, request.emit_for)
        if text is None:
            self._limit_code(str(code.why_not))
            return
        if request.emit_for is None:
            why = self._checked(text)
            if why is not None:
                self._limit("emit", why if request.emit is None else f"no code was written: {why}")
                return
        if request.emit is not None:
            write_atomically(request.emit, text)

    def _checked(self, text: str) -> str | None:
        """Run the code, if breakable-cuda-graphs is installed. Return the reason why the code cannot be used, or
        None."""
        if importlib.util.find_spec("breakable_cuda_graphs") is None:
            why = "the code was compiled and not run: breakable-cuda-graphs is not installed"
            self._limit("emit", f'{why} (pip install "graphsafe[plan]")')
            return None
        (self.folder / CODE).write_text(text, encoding="utf-8")
        child = self.run(self.job("check"))
        checked = child.answers.get(Checked)
        return child.ended.why if checked is None else checked.reason

    def _limit_code(self, why: str) -> None:
        self._limit("emit", f"no code was {'checked' if self.request.emit is None else 'written'}: {why}")

    def _limit(self, kind: str, why: str) -> None:
        self.limits.append(Limit(kind, self.request.called, why))


def of_plain_step(plan: Plan | None, what: str) -> Plan | None:
    """Return the plan of the step without its own graphs. The plan's reason says that the plan is for this step."""
    if plan is None:
        return None
    return replace(plan, reason=f"of the step without {what}" + (f": {plan.reason}" if plan.reason else ""))


def compiled_text(compiled: Compiled, plan: Plan | None) -> str:
    """Return one sentence with the share of kernels that ran from Inductor's graphs, and the share that the plan
    covers."""
    parts = []
    if compiled.kernels and compiled.from_graphs is not None:
        share = compiled.from_graphs / compiled.kernels
        parts.append(f"{share:.0%} of the compiled step's {compiled.kernels} kernels ran from CUDA graphs")
    counters: Mapping[str, Any] = compiled.counters
    parts.append(f"Inductor skipped {count(counters['cudagraph_skips'], 'graph')}")
    if counters["cudagraph_partitions"]:
        parts.append(f"made {count(counters['cudagraph_partitions'], 'partition')}")
    if compiled.captures_after_warmup:
        parts.append(f"recorded {count(compiled.captures_after_warmup, 'graph')} again after the warm-up")
    if compiled.sizes:
        parts.append(f"recorded for {count(len(compiled.sizes), 'size')} of dynamic shapes")
    if plan is not None and plan.coverage is not None:
        state = "verified" if plan.verified else "not verified"
        parts.append(f"a plan of the plain step covers {plan.coverage:.0%} of its operations, {state}")
    return ", ".join(parts)


def learned(known: Sequence[SegmentFailure], failure: SegmentFailure) -> list[SegmentFailure]:
    """Return the failures with which the next child starts. A statement that fails again is no longer split into parts.
    If the statement still fails, the call of its function becomes the line to blame, then the call of that function's
    caller, and so on."""
    frames = failure.frames
    while frames and any(one.whole and one.frames == frames for one in known):
        frames = frames[:-1]
    whole = frames != failure.frames or any(one.frames == frames for one in known)
    return [*known, replace(failure, frames=frames, span=None if whole else failure.span, whole=whole)]


def whole(probes: Probes) -> Plan:
    """Return the plan of a step that is ready. The plan is a single graph."""
    took = probes.timing.graph_ms
    kernels = sum((probes.capture.nodes or {}).values())
    return Plan(
        verified=True,
        reason="the step is ready: one graph",
        coverage=1.0,
        eager_ms=probes.timing.eager_ms,
        planned_ms=took,
        ideal_ms=took,
        pool_bytes=probes.memory.pool_bytes,
        segments=(Segment("graph", kernels=kernels, ms=took, module=""),),
    )
