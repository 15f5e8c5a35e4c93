"""One target over its devices and buckets, and the report of it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from graphsafe import __version__
from graphsafe.capture.buckets.declared import Declaration
from graphsafe.capture.buckets.mismatch import mismatch, support_of
from graphsafe.capture.buckets.sharing import Candidate, Sharing, sample_of
from graphsafe.capture.buckets.support import Times, Tried
from graphsafe.capture.environment import environment
from graphsafe.capture.findings import Seen, findings_of, merged
from graphsafe.capture.growth import said_of
from graphsafe.capture.join import joined
from graphsafe.capture.lookup import what_is_missing
from graphsafe.capture.probe_form import reported
from graphsafe.capture.processes.supervisor import Supervisor
from graphsafe.capture.request import BAD_REQUEST, INTERNAL, INTERRUPTED, CaptureRequest
from graphsafe.capture.run import Run
from graphsafe.failure import in_one_line
from graphsafe.files import ensure_working_directory
from graphsafe.report.fingerprint import fingerprinted
from graphsafe.report.model import Bucket, DeviceResult, Finding, Limit, Report, Support, Tool, in_order
from graphsafe.report.pool import pool_verdict
from graphsafe.report.source import file_line
from graphsafe.report.text import bucket_name, listed
from graphsafe.report.verdict import worst
from graphsafe.rulebook import Rulebook


@dataclass
class _Device:
    name: str
    runs: list[tuple[Mapping[str, Any], Seen]] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    pool: dict[str, Any] | None = None
    "What its buckets did in one pool."


class Proof:
    def __init__(self, request: CaptureRequest, book: Rulebook) -> None:
        self._request = request
        self._book = book
        self._devices: list[_Device] = []
        self._findings: list[Finding] = []
        self._of_bucket: list[Sequence[Finding]] = []
        "In the order in which buckets and devices were run."
        self._support: Support | None = None
        self._built: list[Mapping[str, Any]] = []
        self.limits: list[Limit] = []
        self.fault: Exception | None = None
        "What failed in graphsafe itself, outside of children."
        self._lines: dict[str, set[int]] = {}
        self._interrupted = False
        self._directory = os.getcwd()
        self._all_points = _points(request.buckets)
        self._points = sample_of(self._all_points, request.sample)
        "What is proven by itself."

    @property
    def target(self) -> str:
        return self._request.target

    @property
    def wants_gpu(self) -> bool:
        """Whether it depends on what GPUs there are."""
        devices = self._request.devices
        return not devices or any(not device.startswith("sim") for device in devices)

    def is_impossible(self) -> bool:
        """Whether a look at the target shows that it cannot be run; the report then says why."""
        missing = what_is_missing(self.target)
        if missing is not None:
            self.limits.append(Limit(BAD_REQUEST, self.target, missing))
        return missing is not None

    def run(self, supervisor: Supervisor, present: Sequence[str], folder: Path) -> None:
        """`present`: the GPUs of this machine. Never raises: the next target is not to suffer from this one."""
        try:
            with supervisor:
                self._run(supervisor, present, folder)
        except KeyboardInterrupt:
            self.interrupt()
        except Exception as error:
            self.fault = error
            self.limits.append(Limit(INTERNAL, self.target, in_one_line(error)))

    def interrupt(self) -> None:
        self._interrupted = True
        self.limits.append(Limit(INTERRUPTED, self.target, "stopped by the user before it was done"))

    def _run(self, supervisor: Supervisor, present: Sequence[str], folder: Path) -> None:
        folder.mkdir()
        supervisor.timeout = self._request.timeout
        for name in self._device_names(present):
            device = _Device(name)
            self._devices.append(device)
            for number, axes in enumerate(self._points):
                place = folder / f"{name.replace(':', '-')}-{number}"
                place.mkdir()
                run = Run(supervisor, self._request, name, axes, place)
                started = time.monotonic()
                try:
                    seen = run.prove()
                except KeyboardInterrupt:
                    device.runs.append((axes, run.seen()))
                    raise
                seen = _timed(seen, run, time.monotonic() - started)
                device.folders.append(place)
                if any(limit.kind == INTERNAL for limit in run.limits):
                    seen = replace(seen, verdict=worst((seen.verdict, "inconclusive")))
                device.runs.append((axes, seen))
                self._take(seen, run.limits)
                self._add(*said_of(seen, run.refresh, self._book))
                if (seen.build.get("target_error") or {}).get("stage") == "import":
                    return
            self._share_a_pool(supervisor, device, folder)
        self._compare_with_declared()

    def _take(self, seen: Seen, limits: Sequence[Limit]) -> None:
        ensure_working_directory(self._directory)
        findings, without_line = findings_of(seen, self._book)
        self._findings += findings
        self._of_bucket.append(findings)
        self.limits += [*limits, *without_line]
        self._built.append(seen.build.get("environment") or {})
        for file, numbers in (seen.step.get("lines") or {}).items():
            self._lines.setdefault(file, set()).update(numbers)

    def _share_a_pool(self, supervisor: Supervisor, device: _Device, folder: Path) -> None:
        """Capture the buckets that are ready by themselves together."""
        ready = [
            (Candidate(axes, place, (seen.probes.get("memory") or {}).get("pool_bytes")), seen)
            for (axes, seen), place in zip(device.runs, device.folders, strict=True)
            if seen.verdict == "ready" and axes
        ]
        candidates = [candidate for candidate, _ in ready]
        left = [axes for axes in self._all_points if axes not in self._points]
        if left and ready:
            empty = folder / "not-proven"
            empty.mkdir(exist_ok=True)
            candidates += [Candidate(axes, empty, None) for axes in left]
            names = listed([bucket_name(axes) for axes in left], most=8)
            self.limits.append(Limit("sampled", names, "captured in the pool, but not proven by themselves"))
        if len(candidates) < 2:
            return
        sharing = Sharing(supervisor, self._request, device.name, folder / device.name.replace(":", "-"))
        sharing.run(candidates)
        device.pool = sharing.pool
        self.limits += sharing.limits
        seen = ready[0][1]
        self._add(*sharing.findings(seen.build.get("entry"), self._book, seen.source))

    def _compare_with_declared(self) -> None:
        """What the buckets prove, over all devices, with what the step's classes or the configuration declare."""
        points = self._points
        seen = [[device.runs[number][1] for device in self._devices] for number in range(len(points))]
        tried = [
            Tried(axes, worst(one.verdict for one in of), next(filter(None, map(_times, of)), None))
            for axes, of in zip(points, seen, strict=True)
        ]
        ran = [one for of in seen for one in of]
        told = next((one.build["declared"] for one in ran if one.build.get("declared")), None)
        declared = Declaration(**told) if told else None
        if self._request.declared is not None:
            declared = Declaration(self._request.declared, f"declared = {self._request.declared} in the configuration")
        self._support = support_of(tried, declared)
        if declared is None or not ran:
            return
        if declared.level is None:
            why = "it depends on a configuration that the target does not hold: say declared = ... in the configuration"
            self.limits.append(Limit("support", declared.words, why))
        failures: dict[int, Finding] = {}
        for number, findings in enumerate(self._of_bucket):
            first = next((finding for finding in in_order(findings) if finding.level == "error"), None)
            if first is not None:
                failures.setdefault(number % len(points), first)
        entry = next((one.build["entry"] for one in ran if one.build.get("entry")), None)
        rule = self._book.rules["GS801"]
        self._add(mismatch(tried, declared, entry, failures, rule, ran[0].source))

    def _add(self, *said: Finding | Limit | None) -> None:
        self._findings += [one for one in said if isinstance(one, Finding)]
        self.limits += [one for one in said if isinstance(one, Limit)]

    def _device_names(self, present: Sequence[str]) -> list[str]:
        """The request's devices on this machine; a wrong one becomes a limit, and nothing is run."""
        names: list[str] = []
        for asked in self._request.devices or (("cuda",) if present else ("sim",)):
            found = _named(asked, present)
            if not found:
                have = ", ".join(present) or "no CUDA device"
                self.limits.append(Limit(BAD_REQUEST, f"--device {asked}", f"this machine has {have}"))
                return []
            names += found
        if not self._request.devices and not present:
            self.limits.append(Limit("simulated", "sim:0", "this machine has no GPU: the result is predicted"))
        return list(dict.fromkeys(names))

    def report(self) -> Report:
        """Whatever happens; where graphsafe fails at its findings, without them, and after an interruption without
        what scan says of them, for that takes its time."""
        ensure_working_directory(self._directory)
        if self._interrupted:
            return self._report(merged(self._findings), ())
        try:
            return self._report(*joined(merged(self._findings), self._lines, self._request.config))
        except Exception as error:
            self.fault = self.fault or error
            return self._report((), [Limit(INTERNAL, self.target, in_one_line(error))])

    def _report(self, findings: Sequence[Finding], limits: Sequence[Limit]) -> Report:
        devices = tuple(_device_result(device) for device in self._devices)
        verdict = worst(device.verdict for device in devices)
        root = self._request.config.root
        return Report(
            tool=Tool("graphsafe", __version__),
            command="capture",
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            environment=environment(self._built, self._book.ops.name, self._request.config.settings),
            target=self._request.target,
            verdict=verdict if self.fault is None and not self._interrupted else worst((verdict, "inconclusive")),
            evidence="predicted" if any(device.device.startswith("sim") for device in devices) else "measured",
            findings=tuple(in_order(fingerprinted(findings, file_line, lambda path: _from_root(path, root)))),
            limits=tuple(dict.fromkeys((*self.limits, *limits))),
            devices=devices,
            plan=next(
                (seen.plan for device in self._devices for _, seen in device.runs if seen.plan is not None), None
            ),
            support=self._support,
        )


def _times(seen: Seen) -> Times | None:
    timing = seen.probes.get("timing") or {}
    eager, graph = timing.get("eager_ms"), timing.get("graph_ms")
    return Times(eager, graph) if eager and graph else None


def _timed(seen: Seen, run: Run, seconds: float) -> Seen:
    """With what this took, altogether and for each child, what the children did meanwhile, and why they did not share
    imports where they did not."""
    timing = {
        **seen.probes.get("timing", {"status": "skipped"}),
        "seconds": round(seconds, 2),
        "children": run.seconds,
        "spent": run.spent,
        "not_shared": run.not_shared,
    }
    return replace(seen, probes={**seen.probes, "timing": timing})


def _named(asked: str, present: Sequence[str]) -> list[str]:
    if asked.startswith("sim"):
        return [asked if ":" in asked else "sim:0"]
    if asked == "all":
        return list(present)
    if asked == "cuda":
        return list(present[:1])
    return [asked] if asked in present else []


def _points(buckets: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(buckets, values, strict=True)) for values in itertools.product(*buckets.values())]


def _device_result(device: _Device) -> DeviceResult:
    buckets = tuple(_bucket(axes, seen) for axes, seen in device.runs)
    verdict = worst(bucket.verdict for bucket in buckets)
    probes = next((bucket.probes for bucket in buckets if bucket.verdict == verdict), {})
    named = buckets if any(axes for axes, _ in device.runs) else ()
    if device.pool is not None:
        verdict = worst((verdict, pool_verdict(device.pool)))
    return DeviceResult(device.name, verdict, named, probes, pool=device.pool)


def _bucket(axes: Mapping[str, Any], seen: Seen) -> Bucket:
    probes = reported(seen.probes)
    return Bucket(axes, seen.verdict, probes, (probes.get("memory") or {}).get("pool_bytes"))


def _from_root(path: str, root: Path) -> str:
    """A location's path from the project root; one of a library stays as it is."""
    try:
        return Path(path).resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return path
