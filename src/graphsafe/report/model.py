"""The report as data: the answers of `scan` and `capture`, without the way in which they were found.

Every key of the JSON form is a field here, in the order in which it is written. Unknown is `None`; no key is absent.
Lines and columns count from 1 in Unicode code points; an end is exclusive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from graphsafe.report.executed import ExecutedFile, HotLines

REPORT_SCHEMA = "graphsafe/report/1"
REPORTS_SCHEMA = "graphsafe/reports/1"

Level = Literal["error", "warning", "note"]
Confidence = Literal["proven", "likely", "possible"]
Source = Literal["scan", "capture", "simulate"]
Region = Literal["captured", "step"]
REGIONS: tuple[Region, ...] = get_args(Region)
JoinStatus = Literal["confirmed", "refuted", "not-executed"]
Verdict = Literal["ready", "ready-with-breaks", "inconclusive", "not-ready"]

LEVELS: tuple[Level, ...] = ("note", "warning", "error")
CONFIDENCES: tuple[Confidence, ...] = ("possible", "likely", "proven")
VERDICTS: tuple[Verdict, ...] = ("ready", "ready-with-breaks", "inconclusive", "not-ready")
"""Best first: a report's verdict is the worst of its parts, which is `max` by this order."""


@dataclass(frozen=True, slots=True)
class Location:
    """A span of the user's code. `path` is relative to the working directory, with forward slashes."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str | None
    "The qualified name of the enclosing function (`Decoder.forward`), `None` at module level."


Span = tuple[int, int, int, int]
"""First line and column, last line and the column after the end; lines from 1, columns from 0 in UTF-8 bytes, as `ast`
counts."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """One call on the way from a hot root to a finding: `function` calls the next one on `line`."""

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
    "`captured` is code that a graph will hold; `step` is host code around it, run in every step."
    call_chain: tuple[CallSite, ...]
    "The calls from the root to the caller of the function with the finding; empty if that function is the root."
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
    """Sort by file, place and code, the order in all forms."""

    def place(finding: Finding) -> tuple[Any, ...]:
        at = finding.location
        return (at.path, at.line, at.column, finding.code, finding.device or "", finding.message)

    return sorted(findings, key=place)


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the report: something that could not be known, varied, seen or run."""

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
    "The name of the op table, for example `torch-2.11`."
    settings: Mapping[str, str]
    "An allow-list of environment variables plus configured names; never all of os.environ."
    libraries: Mapping[str, str] = field(default_factory=dict)
    "Versions of libraries besides torch that affect kernels and graphs, if the target imports them."


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a scan looked."""

    roots: int
    "The number of functions at which the scan began to read."
    hidden: int
    "The number of findings with confidence `possible`, which were left out because the user did not ask for them."


@dataclass(frozen=True, slots=True)
class Bucket:
    """One point of the bucket axes, e.g. `{"batch": 4, "q_len": 1}`, with its own verdict and probes."""

    axes: Mapping[str, Any]
    verdict: Verdict
    probes: Mapping[str, Mapping[str, Any]]
    pool_bytes: int | None = None
    "The bytes that the bucket's graph holds, if measured."


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """The answers of one device. `probes` has the keys of `graphsafe.report.probes.PROBE_KEYS`, each a mapping with at
    least `status`. With buckets, they are the probes of the worst bucket (the first one, if several are equally
    bad)."""

    device: str
    verdict: Verdict
    buckets: tuple[Bucket, ...]
    probes: Mapping[str, Mapping[str, Any]]
    rank: int | None = None
    "The rank that ran on the device, if several ranks ran."
    pool: Any = None
    "The result of capturing the device's buckets in one pool; None if this was not tried."

    @property
    def parts(self) -> tuple[Bucket, ...]:
        """Return the buckets; without buckets, the device as one bucket without axes."""
        return self.buckets or (Bucket({}, self.verdict, self.probes),)


@dataclass(frozen=True, slots=True)
class Proven:
    """The support for CUDA graphs that the buckets prove."""

    level: str
    max_query_len: int | None
    "The largest number of tokens per request that is proven for uniform batches; None if no such batch is proven."
    buckets: tuple[Mapping[str, Any], ...]
    "The axes of the buckets that are ready."


@dataclass(frozen=True, slots=True)
class Declared:
    """The support that a class behind the step, or the configuration, declares."""

    level: str | None
    where: str | None
    words: str


@dataclass(frozen=True, slots=True)
class Support:
    proven: Proven | None
    declared: Declared | None


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a step that a plan has captured, or runs eagerly; unknown times are None."""

    kind: Literal["graph", "eager"]
    operations: int | None = None
    kernels: int | None = None
    "The number of nodes of the graph."
    ms: float | None = None
    module: str | None = None
    "The innermost module that contains all operations."
    code: str | None = None
    location: Location | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedModule:
    """A module in which operations run, with its submodules."""

    module: str
    state: Literal["captured", "mixed", "eager"]
    operations: int
    captured: int


@dataclass(frozen=True, slots=True)
class Fix:
    """A line to blame for breaks."""

    code: str
    location: Location
    coverage: float
    "The coverage if only this line is fixed."
    together: float
    "The coverage if the lines before it are fixed too."
    planned_ms: float | None

    @staticmethod
    def upgraded(data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the data with the key `together`; older reports have its value under `coverage`."""
        return {"together": data.get("coverage"), **data}


@dataclass(frozen=True, slots=True)
class Plan:
    """The captured segments of a step and the eager breaks between them."""

    verified: bool = False
    "Whether the segments, replayed in order on changed inputs, gave the results of the independent reference."
    reason: str | None = None
    """The reason why the plan is not verified. A verified plan has a reason only if it is a plan of the step without
    its own graphs."""
    coverage: float | None = None
    "The share of the step's device operations that lie in captured segments."
    operations: int | None = None
    eager_ms: float | None = None
    planned_ms: float | None = None
    ideal_ms: float | None = None
    "The computed time of a plan without breaks."
    pool_bytes: int | None = None
    segments: tuple[Segment, ...] = ()
    modules: tuple[PlannedModule, ...] = ()
    fixes: tuple[Fix, ...] = ()
    guards: tuple[str, ...] = ()
    "Conditions that must be the same as at capture for the plan to be valid."


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    schema: str = REPORT_SCHEMA
    tool: Tool
    command: Literal["scan", "capture", "run"]
    "`run` only for a ledger's findings: see `report/ledger`."
    created: str
    "UTC, ISO 8601, seconds."
    environment: Environment
    target: str | None
    verdict: Verdict | None
    evidence: Literal["measured", "predicted"] | None
    findings: tuple[Finding, ...]
    limits: tuple[Limit, ...]
    devices: tuple[DeviceResult, ...] | None
    plan: Plan | None = None
    support: Support | None = None
    executed: tuple[ExecutedFile, ...] | None = None
    "The lines of the project that the captured steps ran; None for a scan."
    hot_lines: HotLines | None = None
    "How many of a scan's hot lines were run by the captures that `--with` gave to the scan."
    reach: Reach | None = None
    "How far a scan looked; None for a capture."


def facts_of(report: Report) -> dict[str, str | None]:
    """Return the versions, devices and settings with which a report was made, each under its readable name."""
    it = report.environment
    return {
        "graphsafe": report.tool.version,
        "Python": it.python,
        "torch": it.torch,
        "CUDA": it.cuda,
        "driver": it.driver,
        "devices": ", ".join(it.devices) or None,
        "op table": it.facts,
        **it.libraries,
        **it.settings,
    }


def title_of(report: Report) -> str:
    """Return `graphsafe capture model.py:build`."""
    return " ".join(filter(None, ("graphsafe", report.command, report.target)))


def unsuppressed(report: Report) -> list[Finding]:
    """Return, in order, the findings that a reader should act on."""
    return [finding for finding in in_order(report.findings) if finding.suppressed is None]


def failing(report: Report, level: Level) -> list[Finding]:
    """Return the unsuppressed findings at or above `level`."""
    levels = LEVELS[LEVELS.index(level) :]
    return [finding for finding in unsuppressed(report) if finding.level in levels]


def is_in_baseline(finding: Finding) -> bool:
    """Return whether a baseline suppresses a finding, rather than a comment."""
    return finding.suppressed is not None and "baseline" in finding.data


def with_fix(finding: Finding) -> str:
    """Return the finding in one paragraph, for forms without room for more."""
    return f"{finding.message.rstrip('.')}. Fix: {finding.fix}" if finding.fix else finding.message
