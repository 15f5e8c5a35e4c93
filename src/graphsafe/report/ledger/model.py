"""The ledger as data classes, in the order in which it is written as JSON.

No key is ever absent, and unknown values are None. Locations, findings and limits are those of reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from graphsafe.report.model import CallSite, Environment, Finding, Limit, Location, Report, Tool

LEDGER_SCHEMA = "graphsafe/ledger/1"

CUT_OFF = "cut-off"
"The kind of a limit about a process that ended before it could report its last second."
Access = Literal["read", "write", "both"]
OutsideStatus = Literal["alive", "freed", "moved", "rebound"]


@dataclass(frozen=True, slots=True)
class Captured:
    """The line that captured a graph, and the circumstances of the capture."""

    location: Location | None
    "The user's line, or None if none was running, as under `python -c`."
    call_chain: tuple[CallSite, ...]
    stream: str
    "The stream as `default stream` or `side stream 1`, never as a pointer."
    thread: str
    seconds: float
    at: str | None = None
    "The time at which the capture began: UTC, ISO 8601."


@dataclass(frozen=True, slots=True)
class Replayer:
    """A thread that replayed a graph, and the stream of the replay."""

    thread: str
    stream: str


@dataclass(frozen=True, slots=True)
class Outside:
    """Memory outside a graph's pool that the graph's replays read or write, and whether it still exists."""

    what: str
    "The name of the memory in the user's code (`model.layers.0.weight`). Without a name: its shape and type."
    bytes: int
    made: Location | None
    access: Access
    status: OutsideStatus
    where: Location | None
    "The line that freed, moved or rebound the memory."
    replays_since: int
    "The number of replays after the memory was freed, moved or rebound."


@dataclass(frozen=True, slots=True)
class Graph:
    name: str
    "The number of the graph in the order of captures in its process: `1`, `2`, ..."
    captured: Captured
    device: str
    nodes: Mapping[str, int] | None
    pool_bytes: int | None
    "The number of bytes by which the pool grew during the capture."
    replays: int
    first_replay: str | None
    last_replay: str | None
    outside: tuple[Outside, ...]
    replayed_by: tuple[Replayer, ...] = ()
    """The first replayers, at most 16.

    Every thread is recorded. Another stream of a known thread is recorded only when the graph's memory is checked.
    """
    generators: tuple[str, ...] | None = None
    "The generators from which replays draw. It is None before the first replay."
    instantiations: int = 1


@dataclass(frozen=True, slots=True)
class Failed:
    """A capture that failed."""

    location: Location | None
    error: str
    swallowed_by: Location | None
    "The handler that swallowed the exception. It is None if there was no such handler or if it is unknown."


@dataclass(frozen=True, slots=True)
class Eager:
    """Steps that ran without a graph although their process has graphs of the same step."""

    steps: int
    sizes: tuple[int, ...]
    captured_sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A line that waited for the device between replays."""

    location: Location | None
    count: int
    ms: float | None


@dataclass(frozen=True, slots=True)
class LineBytes:
    """The bytes of the graphs' memory that one line allocated."""

    location: Location | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Held:
    """The total memory that graphs hold."""

    graphs_bytes: int | None
    by_line: tuple[LineBytes, ...] | None


@dataclass(frozen=True, slots=True)
class Idle:
    """The share of time in which the GPUs of a process were idle: they ran no kernel of this or any other process."""

    share: float
    seconds: float
    "The time from the first replay to the last."
    source: Literal["NVML, the whole GPU"] = "NVML, the whole GPU"

    @property
    def text(self) -> str:
        share = f"{100 * self.share:.0f} % of {self.seconds:.3g} s"
        return f"the GPU idled {share} between first and last replay ({self.source})"


@dataclass(frozen=True, slots=True)
class Turn:
    """Successive replays of one graph."""

    graph: str
    replays: int


@dataclass(frozen=True, slots=True)
class Process:
    name: str
    "The name of the process: `0` for the program, `0.1` for the first process that it started."
    rank: int | None
    started_by: str | None
    graphs: tuple[Graph, ...]
    failed: tuple[Failed, ...]
    eager: Eager | None
    "The steps without a graph. It is None if such steps cannot be detected; the limits then say why."
    waits: tuple[Wait, ...] | None
    "The lines that waited. It is None if waits were not watched."
    memory: Held
    idle: Idle | None = None
    order: tuple[Turn, ...] | None = None
    "The first 1,000 turns of the process. It is None for a process without a rank."

    def is_late(self, graph: Graph) -> bool:
        """Return whether a graph was captured after the process's first replay."""
        first = min((one.first_replay for one in self.graphs if one.first_replay), default=None)
        return None not in (first, graph.captured.at) and str(first) < str(graph.captured.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    schema: str = LEDGER_SCHEMA
    tool: Tool
    command: Literal["run"] = "run"
    created: str
    environment: Environment
    program: tuple[str, ...]
    exit_code: int | None
    "The program's exit code, or None while the program runs."
    findings: tuple[Finding, ...]
    limits: tuple[Limit, ...]
    processes: tuple[Process, ...]

    def is_whole(self, process: Process) -> bool:
        """Return whether a process was watched until its end.

        Otherwise it may have captured graphs that the ledger does not contain.
        """
        kinds = (CUT_OFF, "internal", "still-running")
        return not any(one.kind in kinds and one.what == f"process {process.name}" for one in self.limits)

    def as_report(self) -> Report:
        """Return the ledger's findings and limits as a report, for formats that can show nothing else."""
        return Report(
            tool=self.tool,
            command=self.command,
            created=self.created,
            environment=self.environment,
            target=" ".join(self.program) or None,
            verdict=None,
            evidence=None,
            findings=self.findings,
            limits=self.limits,
            devices=None,
        )
