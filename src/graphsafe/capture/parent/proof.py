"""Proves one target over its devices and buckets, and makes its report."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Literal

from graphsafe.capture.answers.build import Built, Declaration
from graphsafe.capture.answers.probes import Ran
from graphsafe.capture.parent.buckets.sharing import sample_of
from graphsafe.capture.parent.buckets.support import BucketResult, mismatch, support_of
from graphsafe.capture.parent.device_proof import DeviceProof
from graphsafe.capture.parent.environment import environment
from graphsafe.capture.parent.finding_table import merged
from graphsafe.capture.parent.join import Predictions, executed_files, joined, of_project
from graphsafe.capture.parent.lookup import what_is_missing
from graphsafe.capture.parent.probes import DeviceAnswers
from graphsafe.capture.parent.ranks.coordinator import Coordinator
from graphsafe.capture.parent.ranks.rank import Rank, side_by_side, variables_of
from graphsafe.capture.parent.supervision.device_use import at_a_time
from graphsafe.capture.parent.supervision.supervisor import Supervisor
from graphsafe.capture.request import BAD_REQUEST, INTERNAL, INTERRUPTED, CaptureRequest
from graphsafe.capture.shared.places import shown
from graphsafe.failure import in_one_line
from graphsafe.files import ensure_working_directory
from graphsafe.report.fingerprint import fingerprinted
from graphsafe.report.model import Finding, Limit, Report, Support, Tool, in_order
from graphsafe.report.probes.timing import Timing
from graphsafe.report.source import file_line
from graphsafe.report.verdict import worst
from graphsafe.rulebook.book import Rulebook
from graphsafe.version import __version__


class Proof:
    def __init__(self, request: CaptureRequest, book: Rulebook) -> None:
        self._request = request
        self._book = book
        self.target = request.called
        self.has_ranks = request.nproc is not None
        self.wants_gpu = not all(device.startswith("sim") for device in request.devices or ("cuda",))
        "Whether the devices to use depend on which GPUs this machine has."
        self._devices: list[DeviceProof] = []
        self._findings: list[Finding] = []
        self._support: Support | None = None
        self.limits: list[Limit] = []
        self.fault: Exception | None = None
        "An error of graphsafe itself in the parent process, or None."
        self._interrupted = False
        self._directory = os.getcwd()
        self._all_points = _points(request.buckets)
        self._points = sample_of(self._all_points, request.sample)
        "The buckets that are proven one by one."

    def is_impossible(self) -> bool:
        """Return whether the target's files already show that the target cannot run. The report then gives the
        reason."""
        missing = what_is_missing(self._request.target, self._request.config.targets)
        if missing is not None:
            self.limits.append(Limit(BAD_REQUEST, self.target, missing))
        return missing is not None

    def run(self, supervisor: Callable[[], Supervisor], present: Sequence[str], folder: Path) -> None:
        """Prove the target. `present` are the machine's GPUs; each device has its own supervisor. Never raises, so that
        other targets continue."""
        try:
            self._run(supervisor, present, folder)
        except KeyboardInterrupt:
            self.interrupt()
        except Exception as error:
            self.fault = error
            self.limits.append(Limit(INTERNAL, self.target, in_one_line(error)))

    def interrupt(self) -> None:
        self._interrupted = True
        self.limits.append(Limit(INTERRUPTED, self.target, "stopped by the user before it was done"))

    def _run(self, supervisor: Callable[[], Supervisor], present: Sequence[str], folder: Path) -> None:
        """Run all ranks at the same time. Without ranks, run as many devices at a time as the machine has cores for."""
        folder.mkdir()
        size = self._request.nproc
        names = self._device_names(present) if size is None else self._rank_devices(size, present)
        unproven = [axes for axes in self._all_points if axes not in self._points]
        ranks = self._ranks(len(names), folder) if size is not None and names else [Rank() for _ in names]
        self._devices += [
            DeviceProof(name, self._request, self._book, self._points, unproven, rank)
            for name, rank in zip(names, ranks, strict=True)
        ]
        works = [partial(device.run, supervisor(), folder) for device in self._devices]
        together = at_a_time() if size is None else max(len(works), 1)
        abandon = ranks[0].coordinator.abandon if size is not None and ranks else lambda: None
        try:
            for first in range(0, len(works), together):
                side_by_side(works[first : first + together], abandon)
        finally:
            ensure_working_directory(self._directory)
            for device in self._devices:
                self._findings += device.findings
                self.limits += device.limits
        self._compare_with_declared()

    def _ranks(self, size: int, folder: Path) -> list[Rank]:
        """Return the ranks, which make decisions together. Each rank has the environment that a launcher gave it."""
        coordinator = Coordinator(size)
        variables = self._request.variables or [variables_of(number, size) for number in range(size)]
        return [Rank(number, coordinator, folder, variables[number]) for number in range(size)]

    def _compare_with_declared(self) -> None:
        """Compare the declared support with the support that the buckets prove on all devices."""
        points = self._points
        seen = [
            [device.runs[number][1] for device in self._devices if number < len(device.runs)]
            for number in range(len(points))
        ]
        tried = [
            BucketResult(axes, worst(one.verdict for one in of), _timing(of))
            for axes, of in zip(points, seen, strict=True)
        ]
        ran = [one for of in seen for one in of]
        declared = next((one.answers[Built].declared for one in ran if one.answers[Built].declared is not None), None)
        if self._request.declared is not None:
            declared = Declaration(self._request.declared, f"declared = {self._request.declared} in the configuration")
        self._support = support_of(tried, declared)
        if declared is None or not ran:
            return
        if declared.level is None:
            why = "it needs an engine configuration that the target lacks: set `declared` in graphsafe's configuration"
            self.limits.append(Limit("support", declared.words, why))
        failures: dict[int, Finding] = {}
        for device in self._devices:
            for number, findings in enumerate(device.of_bucket):
                first = next((finding for finding in in_order(findings) if finding.level == "error"), None)
                if first is not None:
                    failures.setdefault(number, first)
        entry = next((one.answers[Built].entry for one in ran if one.answers[Built].entry is not None), None)
        rule = self._book.rules["GS801"]
        found = mismatch(tried, declared, entry, failures, rule, ran[0].source)
        self._findings += [found] if isinstance(found, Finding) else []
        self.limits += [found] if isinstance(found, Limit) else []

    def _device_names(self, present: Sequence[str]) -> list[str]:
        """Return the names of the devices that the request asks for. If a name is wrong, add a limit and return none,
        so that nothing runs."""
        names: list[str] = []
        for asked in self._request.devices or (("cuda",) if present else ("sim",)):
            found = _named(asked, present)
            if not found:
                self._lacks(f"--device {asked}", present)
                return []
            names += found
        if not self._request.devices and not present:
            self.limits.append(Limit("simulated", "sim:0", "this machine has no GPU: the result is predicted"))
        return list(dict.fromkeys(names))

    def _rank_devices(self, size: int, present: Sequence[str]) -> list[str]:
        """Return a device for each rank: the devices that the request names, else the first ones. If there are too few,
        add a limit and return none."""
        asked = self._request.devices or (("cuda",) if present else ("sim",))
        if len(set(asked)) == len(asked) == size and all(":" in name for name in asked):
            return list(dict.fromkeys(self._device_names(present)))
        if len(asked) > 1 or ":" in asked[0]:
            said = " ".join(f"--device {name}" for name in asked)
            self.limits.append(Limit(BAD_REQUEST, said, f"{size} ranks need {size} devices"))
            return []
        if asked[0] == "sim":
            return [f"sim:{number}" for number in range(size)]
        if len(present) < size:
            self._lacks(f"{size} ranks", present)
            return []
        return list(present[:size])

    def _lacks(self, wanted: str, present: Sequence[str]) -> None:
        have = ", ".join(present) or "no CUDA device"
        self.limits.append(Limit(BAD_REQUEST, wanted, f"this machine has {have}"))

    def report(self, predictions: Predictions) -> Report:
        """Return the report. A report always exists: after a fault it has no findings, and after an interruption it
        lacks scan's findings."""
        ensure_working_directory(self._directory)
        if self._interrupted:
            return self._report(merged(self._findings), ())
        try:
            ready = all(device.result().verdict == "ready" for device in self._devices)
            found = merged(self._findings)
            return self._report(*joined(found, self._lines(), self._request.config, ready, predictions))
        except Exception as error:
            self.fault = self.fault or error
            return self._report((), [Limit(INTERNAL, self.target, in_one_line(error))])

    @property
    def _seen(self) -> list[DeviceAnswers]:
        return [seen for device in self._devices for _, seen in device.runs]

    def _lines(self) -> dict[str, set[int]]:
        """Return the lines of the project that ran, by file."""
        lines: dict[str, set[int]] = {}
        for seen in self._seen:
            for file, numbers in seen.answers[Ran].lines.items():
                lines.setdefault(file, set()).update(numbers)
        return of_project(lines, self._request.target)

    def _report(self, findings: Sequence[Finding], limits: Sequence[Limit]) -> Report:
        devices = tuple(device.result() for device in self._devices)
        verdict = worst(device.verdict for device in devices)
        root = self._request.config.root
        return Report(
            tool=Tool("graphsafe", __version__),
            command="capture",
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            environment=environment(
                [seen.answers[Built].platform for seen in self._seen],
                self._book.ops.name,
                self._request.config.settings,
            ),
            target=self._request.called,
            name=self._request.name,
            verdict=verdict if self.fault is None and not self._interrupted else worst((verdict, "inconclusive")),
            evidence=_evidence([device.device for device in devices]),
            findings=tuple(in_order(fingerprinted(findings, file_line, lambda path: _from_root(path, root)))),
            limits=tuple(dict.fromkeys((*self.limits, *limits))),
            devices=devices,
            executed=executed_files(self._lines()) if any(Ran in seen.answers for seen in self._seen) else None,
            plan=next((seen.plan for seen in self._seen if seen.plan is not None), None),
            support=self._support,
            shard=self._request.shard,
        )


def _evidence(devices: Sequence[str]) -> Literal["measured", "predicted"] | None:
    """Return the kind of evidence that a run on these devices gives; None if nothing ran."""
    if not devices:
        return None
    return "predicted" if any(device.startswith("sim") for device in devices) else "measured"


def _timing(seen: Sequence[DeviceAnswers]) -> Timing:
    """Return the first timing that has the time of an eager step and that of a replay."""
    measured = (one.probes.timing for one in seen if one.probes.timing.times_as_fast is not None)
    return next(measured, Timing())


def _named(asked: str, present: Sequence[str]) -> list[str]:
    if asked.startswith("sim"):
        return [asked if ":" in asked else "sim:0"]
    if asked == "all":
        return list(present)
    if asked == "cuda":
        return list(present[:1])
    return [asked] if asked in present else []


def _points(buckets: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the buckets, each one once. Equal values of different types, such as 1 and True, are different buckets."""
    axes = ({repr(value): value for value in values}.values() for values in buckets.values())
    return [dict(zip(buckets, values, strict=True)) for values in itertools.product(*axes)]


def _from_root(path: str, root: Path) -> str:
    """Return a path relative to the project's root. A library's file gets its name in site-packages. Any other path
    outside of the project is not changed."""
    if (name := shown(path)) != path:
        return name
    try:
        return Path(path).resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return path
