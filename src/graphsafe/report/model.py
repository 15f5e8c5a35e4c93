"""The report as data: what `scan` and `capture` say, and nothing about how they found it.

Every key of the JSON form is a field here, in the order in which it is written. Unknown is `None`; no key is absent.
Lines and columns count from 1 in Unicode code points; an end is exclusive.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from graphsafe.errors import RequestError

REPORT_SCHEMA = "graphsafe/report/1"
REPORTS_SCHEMA = "graphsafe/reports/1"

Level = Literal["error", "warning", "note"]
Confidence = Literal["proven", "likely", "possible"]
Source = Literal["scan", "capture", "simulate"]
Region = Literal["captured", "step"]
REGIONS: tuple[Region, ...] = get_args(Region)
JoinStatus = Literal["confirmed", "refuted", "not-executed"]
Verdict = Literal["ready", "ready-with-breaks", "inconclusive", "not-ready"]
ProbeStatus = Literal["pass", "fail", "skipped", "crashed", "timeout"]

LEVELS: tuple[Level, ...] = ("note", "warning", "error")
CONFIDENCES: tuple[Confidence, ...] = ("possible", "likely", "proven")
VERDICTS: tuple[Verdict, ...] = ("ready", "ready-with-breaks", "inconclusive", "not-ready")
"""Best first: a report's verdict is the worst of its parts, which is `max` by this order."""

PROBE_KEYS: Mapping[str, tuple[str, ...]] = {
    "construct": ("status", "reason", "built", "left_capturing", "rng", "captures"),
    "step": ("status", "reason", "ran", "syncs", "copies", "allocations", "by_line", "unknown_operations"),
    "state": ("status", "reason", "changed"),
    "capture": ("status", "reason", "phase", "nodes", "first_error", "empty", "misses_work", "unknown_operations"),
    "replay": ("status", "reason", "first_error", "reference", "checks", "varied", "unvaried", "rng_law", "first_step"),
    "twin": ("status", "reason", "captures", "agree", "differences"),
    "memory": ("status", "reason", "pool_bytes", "peak_bytes", "step", "pool"),
    "timing": ("status", "reason", "eager_ms", "graph_ms", "launches"),
}
"""The keys that every probe has in every report, null where not known; what decides a verdict is told in `verdict.py`.
A probe may have more."""


@dataclass(frozen=True, slots=True)
class Location:
    """A span of the user's code. `path` is relative to the working directory, with forward slashes."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str | None
    "Qualified name of the enclosing function (`Decoder.forward`), `None` at module level."


@dataclass(frozen=True, slots=True)
class CallSite:
    """One step of the way from a hot root to a finding: `line` is where `function` calls the next one."""

    path: str
    line: int
    function: str | None


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the span by `text`."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class Suppression:
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause on one line."""

    code: str
    rule: str
    level: Level
    confidence: Confidence
    source: Source
    device: str | None
    location: Location
    region: Region | None = None
    "`captured`: what a graph will hold; `step`: host code around it, run in every step."
    call_chain: tuple[CallSite, ...]
    "From the root to the caller of the function that holds the finding; empty where that function is the root."
    further_roots: int = 0
    count: int = 1
    message: str
    why: str
    fix: str
    edits: tuple[Edit, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    suppressed: Suppression | None = None
    status: JoinStatus | None = None


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """By file, place and code: the one order of every form."""

    def place(finding: Finding) -> tuple[Any, ...]:
        at = finding.location
        return (at.path, at.line, at.column, finding.code, finding.device or "", finding.message)

    return sorted(findings, key=place)


@dataclass(frozen=True, slots=True)
class Limit:
    """What could not be known, varied, seen or run."""

    kind: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Environment:
    python: str
    torch: str | None
    cuda: str | None
    driver: str | None
    devices: tuple[str, ...]
    facts: str
    "Which op table was used, for example `torch-2.11`."
    settings: Mapping[str, str]
    "An allow-list of environment variables plus configured names; never all of os.environ."
    libraries: Mapping[str, str] = field(default_factory=dict)
    "Versions of what decides about kernels and graphs besides torch, where the target imports it."


@dataclass(frozen=True, slots=True)
class Bucket:
    """One point of the bucket axes, e.g. `{"batch": 4, "q_len": 1}`, with its own verdict and probes."""

    axes: Mapping[str, Any]
    verdict: Verdict
    probes: Mapping[str, Mapping[str, Any]]
    pool_bytes: int | None = None
    "What the bucket's graph holds, where it was measured."


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """What one device said. `probes` has the keys of `PROBE_KEYS`, each a mapping with at least `status`; where there
    are buckets, they are those of the worst one, the first of equals."""

    device: str
    verdict: Verdict
    buckets: tuple[Bucket, ...]
    probes: Mapping[str, Mapping[str, Any]]
    rank: int | None = None
    "The rank that ran on it, where several did."
    pool: Any = None
    "What its buckets did when they were captured in one pool, None where that was not tried."


@dataclass(frozen=True, slots=True)
class Support:
    proven: Any
    declared: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    schema: str = REPORT_SCHEMA
    tool: Tool
    command: Literal["scan", "capture"]
    created: str
    "UTC, ISO 8601, seconds."
    environment: Environment
    target: str | None
    verdict: Verdict | None
    evidence: Literal["measured", "predicted"] | None
    findings: tuple[Finding, ...]
    limits: tuple[Limit, ...]
    devices: tuple[DeviceResult, ...] | None
    plan: Any = None
    support: Support | None = None

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Report:
        """Read a report that `scan` or `capture` has written as JSON.

        Raises RequestError, with one line, for what is no report of this version, and for a file of `capture --all`,
        which holds several: `load_all` reads these.
        """
        found = Report.load_all(path)
        if len(found) != 1:
            raise RequestError(f"{path}: holds {len(found)} reports; Report.load_all reads them")
        return found[0]

    @staticmethod
    def load_all(path: str | os.PathLike[str]) -> tuple[Report, ...]:
        """The reports that a file holds, in order. Raises RequestError."""
        from graphsafe.report.json_form import read_reports

        found = read_reports(Path(path))
        return (found,) if isinstance(found, Report) else found


def unsuppressed(report: Report) -> list[Finding]:
    """In order, what a reader is asked to do something about."""
    return [finding for finding in in_order(report.findings) if finding.suppressed is None]


def failing(report: Report, level: Level) -> list[Finding]:
    """What is not suppressed, from a level on."""
    levels = LEVELS[LEVELS.index(level) :]
    return [finding for finding in unsuppressed(report) if finding.level in levels]


def is_in_baseline(finding: Finding) -> bool:
    """Whether it is suppressed by a baseline, and not by a comment."""
    return finding.suppressed is not None and "baseline" in finding.data


def with_fix(finding: Finding) -> str:
    """The finding in one paragraph, for forms that have room for no more."""
    return f"{finding.message.rstrip('.')}. Fix: {finding.fix}" if finding.fix else finding.message
