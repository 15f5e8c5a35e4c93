"""The ledger as data, in the order in which its JSON form is written. No key is ever absent; unknown is `None`.
Locations, findings and limits are those of reports."""

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
    """The place and the way in which a graph was captured."""

    location: Location | None
    "The user's line; `None` if none was running, as under `python -c`."
    call_chain: tuple[CallSite, ...]
    stream: str
    "The stream: `default stream`, `side stream 1`; symbolic, never a pointer."
    thread: str
    seconds: float
    at: str | None = None
    "The time at which the capture began: UTC, ISO 8601."


@dataclass(frozen=True, slots=True)
class Replayer:
    """A thread, and the stream on which it replayed a graph."""

    thread: str
    stream: str


@dataclass(frozen=True, slots=True)
class Outside:
    """Memory outside a graph's pool that the graph's replays read or write, and what has become of the memory."""

    what: str
    "The memory's name in the user's code (`model.layers.0.weight`), else its shape and type."
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
    "The graph's number in the order of captures in its process: `1`, `2`, ..."
    captured: Captured
    device: str
    nodes: Mapping[str, int] | None
    pool_bytes: int | None
    "Bytes by which the capture made its pool grow."
    replays: int
    first_replay: str | None
    last_replay: str | None
    outside: tuple[Outside, ...]
    replayed_by: tuple[Replayer, ...] = ()
    """At most 16 replayers. Every thread is noticed; another stream of the same thread is noticed only when the graph's
    memory is checked."""
    generators: tuple[str, ...] | None = None
    "The generators from which replays draw; `None` before the first replay."
    instantiations: int = 1


@dataclass(frozen=True, slots=True)
class Failed:
    """A capture that failed."""

    location: Location | None
    error: str
    swallowed_by: Location | None
    "The handler that swallowed the exception; `None` if there was none or it is not known."


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
    """The bytes of graphs' memory that a line allocated."""

    location: Location | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Held:
    """Total memory that graphs hold."""

    graphs_bytes: int | None
    by_line: tuple[LineBytes, ...] | None


@dataclass(frozen=True, slots=True)
class Idle:
    """The share of time in which the GPUs of a process ran no kernel of any process."""

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
    "`None` if steps cannot be seen; the limits give the reason."
    waits: tuple[Wait, ...] | None
    "The lines that waited; None if waits were not watched."
    memory: Held
    idle: Idle | None = None
    order: tuple[Turn, ...] | None = None
    "The first 1,000 runs of successive replays of one graph in a rank; None for a process without a rank."

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
    "`None` while the program runs."
    findings: tuple[Finding, ...]
    limits: tuple[Limit, ...]
    processes: tuple[Process, ...]

    def is_whole(self, process: Process) -> bool:
        """Return whether a process was watched to its end; if not, it may have captured graphs that the ledger does not
        contain."""
        kinds = (CUT_OFF, "internal", "still-running")
        return not any(one.kind in kinds and one.what == f"process {process.name}" for one in self.limits)

    def as_report(self) -> Report:
        """Return the ledger's findings and limits as a report, for the forms that show only findings and limits."""
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
