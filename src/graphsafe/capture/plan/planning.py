"""The plan of one step: which children look for it, what they learn from each other, and the code that applies it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.job import Job, forget, write_json
from graphsafe.capture.lines.places import listed_places
from graphsafe.capture.plan.answer import learned, reported, whole
from graphsafe.capture.plan.marks import CODE, marks
from graphsafe.capture.processes.device_use import ran_out_of_memory
from graphsafe.files import write_atomically
from graphsafe.report.model import Limit
from graphsafe.report.text import count
from graphsafe.report.verdict import verdict

if TYPE_CHECKING:
    from graphsafe.capture.processes.child_process import Child
    from graphsafe.capture.request import CaptureRequest

Data = Mapping[str, Any]

_MOST_CHILDREN = 8
"That plan one after the other, each from what captures of segments failed at before it."


class Planning:
    """`plan()` gives the plan as a report has it, and None where nothing was planned; `limits` then says why."""

    def __init__(
        self,
        request: CaptureRequest,
        folder: Path,
        job: Callable[[str], Job],
        run: Callable[[Job], tuple[Child, Data]],
        probes: Mapping[str, Data],
        own: Data,
    ) -> None:
        """`run` runs a child and notes how it ended; `own`: graphs and marks that the step has itself."""
        self._request = request
        self._folder = folder
        self._job = job
        self._run = run
        self._probes = probes
        self._own = own
        self.limits: list[Limit] = []
        self.marks: Data = {}
        "What the plan says of the marks that the target has, as `given.marks.judged` tells it."

    def plan(self) -> dict[str, Any] | None:
        judged = verdict(self._probes)
        if judged == "ready":
            self.marks = {"missing": [], "needless": self._own.get("marks") or []}
            return whole(self._probes)
        if judged == "inconclusive" or self._request.warmup < 2:
            why = "it needs two steps of warm-up" if judged == "not-ready" else "whether the step is ready is not known"
            self._limit("plan", f"nothing was planned: {why}")
            return None
        if self._own.get("replays"):
            places = listed_places(self._own["replays"])
            why = f"the step replays graphs of its own ({places}), which no reference checks: give what they capture"
            return reported({"reason": why})
        child, result = self._search()
        plan = dict(result.get("plan") or {})
        if child.ending != "done":
            plan["reason"] = f"planning: {child.how_it_ended()}"
        elif "target_error" in result:
            plan["reason"] = f"planning failed: {result['target_error']['line']}"
        self.marks = result.get("marks") or {}
        found = reported(plan)
        if plan.get("verified") and (self._request.emit is not None or self._request.check):
            self._emit(found, dict(result.get("emitted") or {}))
        return found

    def _search(self) -> tuple[Child, Data]:
        failures: list[Mapping[str, Any]] = []
        for _ in range(_MOST_CHILDREN):
            write_json(self._folder / "learned.result", {"failures": failures})
            forget(self._job("plan"))
            child, result = self._run(self._job("plan"))
            failure: Any = result.get("failure")
            if failure is None or not failure["frames"] or ran_out_of_memory(failure):
                break  # a plan, or nothing that another child could learn from
            failures = learned(failures, failure)
        return child, result

    def _emit(self, plan: Data, code: Data) -> None:
        """Write what applies the plan; what keeps it from being written, or from being right, is a limit."""
        request = self._request
        text = code.get("text") if request.emit_for is None else marks(plan, request.emit_for)
        if text is None:
            self._limit("emit", f"no code was written: {code.get('why_not')}")
            return
        if request.check and request.emit_for is None:
            (self._folder / CODE).write_text(text, encoding="utf-8")
            child, result = self._run(self._job("check"))
            checked: Any = result.get("check")
            why = child.how_it_ended() if checked is None else checked["reason"]
            if why is not None:
                self._limit("emit", why)
        if request.emit is not None:
            write_atomically(request.emit, text)

    def _limit(self, kind: str, why: str) -> None:
        self.limits.append(Limit(kind, self._request.target, why))


def of_plain_step(plan: dict[str, Any] | None, what: str) -> dict[str, Any] | None:
    """The plan of the step without its own graphs, as that of the step beside which it is told."""
    if plan is None:
        return None
    reason = plan["reason"]
    return {**plan, "reason": f"of the step without {what}" + (f": {reason}" if reason else "")}


def compiled_text(compiled: Data, plan: Data | None) -> str:
    """One sentence: what ran from Inductor's graphs, and what a plan covers beside it."""
    parts = []
    if compiled["kernels"]:
        share = compiled["from_graphs"] / compiled["kernels"]
        parts.append(f"{share:.0%} of the compiled step's {compiled['kernels']} kernels ran from CUDA graphs")
    counters = compiled["counters"]
    parts.append(f"Inductor skipped {count(counters['cudagraph_skips'], 'graph')}")
    if counters["cudagraph_partitions"]:
        parts.append(f"made {count(counters['cudagraph_partitions'], 'partition')}")
    if compiled["captures_after_warmup"]:
        parts.append(f"recorded {count(compiled['captures_after_warmup'], 'graph')} anew after the warm-up")
    if compiled["sizes"]:
        parts.append(f"recorded for {count(len(compiled['sizes']), 'size')} of dynamic shapes")
    if plan is not None and plan["coverage"] is not None:
        state = "verified" if plan["verified"] else "not verified"
        parts.append(f"a plan of the plain step covers {plan['coverage']:.0%} of its operations, {state}")
    return ", ".join(parts)
