"""The report as data classes: the results of `scan` and `capture`, without the way in which they were found.

Every key of the JSON format is a field here, in the order in which it is written. No key is absent, and unknown values
are None. Lines and columns count from 1, in Unicode code points. An end is exclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from graphsafe.report.executed import ExecutedFile, HotLines

Item = TypeVar("Item")
Key = TypeVar("Key")
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
"""Best first. A report's verdict is the worst verdict of its parts, which is the last in this order."""


@dataclass(frozen=True, slots=True)
class Location:
    """A span of the user's code. `path` is relative to the working directory, with forward slashes."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str | None
    "The qualified name of the enclosing function (`Decoder.forward`). It is None at module level."


Span = tuple[int, int, int, int]
"""The first line and column, the last line, and the column after the end.

Lines count from 1 and columns from 0 in UTF-8 bytes, as in `ast`.
"""


@dataclass(frozen=True, slots=True)
class CallSite:
    """One call on the way from a hot root to a finding: `function` makes the next call on `line`."""

    path: str
    line: int
    function: str | None


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces a span of code by `text`."""

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
    """A fault, or another fact to report, with one cause on one line."""

    code: str
    rule: str
    level: Level
    confidence: Confidence
    source: Source
    device: str | None
    location: Location
    region: Region | None = None
    "`captured` is code that becomes part of a graph. `step` is host code around the graph that runs in every step."
    call_chain: tuple[CallSite, ...]
    "The calls from the root to the function with the finding. It is empty if that function is the root."
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
    """Return findings sorted by file, position and code. All formats use this order."""

    def place(finding: Finding) -> tuple[Any, ...]:
        at = finding.location
        return (at.path, at.line, at.column, finding.code, finding.device or "", finding.message)

    return sorted(findings, key=place)


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the report: something that graphsafe could not find out, vary, see or run."""

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
    "Environment variables of a fixed list, and those that the configuration names. Others may be secret."
    libraries: Mapping[str, str] = field(default_factory=dict)
    "The versions of imported libraries, besides torch, that affect kernels and graphs."


@dataclass(frozen=True, slots=True)
class Reach:
    """How much code a scan has read."""

    roots: int
    "The number of functions at which the scan began to read."
    hidden: int
    "The number of findings with confidence `possible`, which are left out unless the user asks for them."


@dataclass(frozen=True, slots=True)
class Bucket:
    """One point on the bucket axes, such as `{"batch": 4, "q_len": 1}`, with its own verdict and probes."""

    axes: Mapping[str, Any]
    verdict: Verdict
    probes: Mapping[str, Mapping[str, Any]]
    pool_bytes: int | None = None
    "The size in bytes of the memory that the bucket's graph holds, if it was measured."


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """The results of one device.

    `probes` has the keys of `graphsafe.report.probes.PROBE_KEYS`. Each value is a mapping with at least `status`. If
    there are buckets, `probes` are the probes of the worst bucket, or of the first one if several are equally bad.
    """

    device: str
    verdict: Verdict
    buckets: tuple[Bucket, ...]
    probes: Mapping[str, Mapping[str, Any]]
    rank: int | None = None
    "The rank that ran on the device, if several ranks ran."
    pool: Any = None
    "The result of capturing the device's buckets in one pool, or None if this was not tried."

    @property
    def parts(self) -> tuple[Bucket, ...]:
        """The buckets. A device without buckets is one bucket without axes."""
        return self.buckets or (Bucket({}, self.verdict, self.probes),)


@dataclass(frozen=True, slots=True)
class Proven:
    """The support for CUDA graphs that the buckets prove."""

    level: str
    max_query_len: int | None
    "The largest number of tokens per request that is proven for uniform batches, or None if none is proven."
    buckets: tuple[Mapping[str, Any], ...]
    "The axes of the buckets that are ready."


@dataclass(frozen=True, slots=True)
class Declared:
    """The support for CUDA graphs that the configuration, or a class that the step uses, declares."""

    level: str | None
    where: str | None
    words: str


@dataclass(frozen=True, slots=True)
class Support:
    proven: Proven | None
    declared: Declared | None


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a step. The plan has captured this piece or runs it eagerly. Unknown times are None."""

    kind: Literal["graph", "eager"]
    operations: int | None = None
    kernels: int | None = None
    "The number of nodes of the graph."
    ms: float | None = None
    module: str | None = None
    "The innermost module that contains all operations of the piece."
    code: str | None = None
    location: Location | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedModule:
    """A module in which operations run, submodules included."""

    module: str
    state: Literal["captured", "mixed", "eager"]
    operations: int
    captured: int


@dataclass(frozen=True, slots=True)
class Fix:
    """A line that causes breaks."""

    code: str
    location: Location
    coverage: float
    "The coverage if only this line is fixed."
    together: float
    "The coverage if this line and the lines of all fixes before this one in the list are fixed."
    planned_ms: float | None

    @staticmethod
    def upgraded(data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the data with the key `together`. Older reports have this value under `coverage`."""
        return {"together": data.get("coverage"), **data}


@dataclass(frozen=True, slots=True)
class Plan:
    """The captured segments of a step and the eager breaks between them."""

    verified: bool = False
    "Whether the segments, replayed in order on changed inputs, gave the results of the independent reference."
    reason: str | None = None
    """Why the plan is not verified.

    A verified plan has a reason only if the step makes its own graphs. The reason then says that the plan is for the
    step without these graphs.
    """
    coverage: float | None = None
    "The share of the step's device operations that are in captured segments."
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
    "Conditions that must be the same as at the capture for the plan to be valid."


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    schema: str = REPORT_SCHEMA
    tool: Tool
    command: Literal["scan", "capture", "run"]
    "It is `run` only for the findings of a ledger: see `report/ledger`."
    created: str
    "The time at which the report was made: UTC, ISO 8601, with seconds."
    environment: Environment
    target: str | None
    name: str | None = None
    "The target's name in the configuration. Several configured targets may have one factory."
    verdict: Verdict | None
    evidence: Literal["measured", "predicted"] | None
    findings: tuple[Finding, ...]
    limits: tuple[Limit, ...]
    devices: tuple[DeviceResult, ...] | None
    plan: Plan | None = None
    support: Support | None = None
    executed: tuple[ExecutedFile, ...] | None = None
    "The lines of the project that the captured steps ran. It is None for a scan."
    hot_lines: HotLines | None = None
    "How many of a scan's hot lines ran in the captures whose reports were given with `--with`."
    reach: Reach | None = None
    "How much code a scan has read. It is None for a capture."
    shard: str | None = None
    "The part of all targets that contains this target, as in `capture --shard`: `2/8`. Without shards it is None."

    @property
    def called(self) -> str | None:
        """The target in words: `model.py:build`, or `decode (model.py:build)` if it has a name."""
        return self.target if self.name is None else f"{self.name} ({self.target})"


def facts_of(report: Report) -> dict[str, str | None]:
    """Return the versions, devices and settings with which a report was made, by their readable names."""
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
    """Return the report's title: `graphsafe capture model.py:build`."""
    return " ".join(filter(None, ("graphsafe", report.command, report.called)))


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their keys, in the order of the first item of each key."""
    found: dict[Key, list[Item]] = {}
    for one in items:
        found.setdefault(key(one), []).append(one)
    return found


def most_severe(findings: Iterable[Finding], key: Callable[[Finding], object]) -> list[Finding]:
    """Return for each key the first finding of the highest level."""
    return [max(same, key=lambda one: LEVELS.index(one.level)) for same in grouped(findings, key).values()]


def unsuppressed(report: Report) -> list[Finding]:
    """Return the findings that no comment and no baseline suppresses, in order."""
    return [finding for finding in in_order(report.findings) if finding.suppressed is None]


def failing(report: Report, level: Level) -> list[Finding]:
    """Return the unsuppressed findings at or above `level`."""
    levels = LEVELS[LEVELS.index(level) :]
    return [finding for finding in unsuppressed(report) if finding.level in levels]


def is_in_baseline(finding: Finding) -> bool:
    """Return whether a finding is suppressed by a baseline, not by a comment."""
    return finding.suppressed is not None and "baseline" in finding.data


def with_fix(finding: Finding) -> str:
    """Return the finding in one paragraph, for formats with a single text per finding."""
    return f"{finding.message.rstrip('.')}. Fix: {finding.fix}" if finding.fix else finding.message
