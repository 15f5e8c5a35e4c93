"""The facts that a watched process records about itself and its graphs.

The process writes them into its part of the run's ledger, and `graphsafe run` makes findings from them. *Calls* are
frames of the user's code, outermost first. Unless a field says otherwise, the last frame is at the line that a fact is
about. If there are no calls, the line is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphsafe.capture.answers.build import Platform
from graphsafe.capture.answers.events import StepEvent
from graphsafe.report.ledger.model import Access, OutsideStatus
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.order import Race

Calls = tuple[CallSite, ...]
CASTS = "weight in autocast's cache"
"The name of memory that belongs to autocast and not to a tensor of the program."
Stage = Literal["refused", "broken", "left", "open"]
"""How far a failed capture came.

`refused`: `make_graphed_callables` refused it before it began. `broken`: an error of the device broke it. `left`: the
captured code raised an error, but the device did not. `open`: it never ended.
"""
Seeding = Literal["repeated", "unknown", "captured"]
"""How a seed is set without effect.

`repeated`: a known line sets the same seed before each replay. `unknown`: an unknown line does. `captured`: a captured
line sets a seed.
"""


@dataclass(frozen=True, slots=True)
class Changed:
    """A number or a string that had another value when the graph was captured."""

    name: str
    captured: str
    now: str
    at: CallSite | None = None
    """The line that froze the value, or the line that decides whether the value needs a new graph.

    If neither line is known, it is None.
    """
    frames: Calls = ()
    "The calls that led to the replay."


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A read of a result after another graph, or a later replay of the same graph, has overwritten the result."""

    read: CallSite
    replay: Calls
    "The calls that led to the replay that overwrote the result."
    by: int
    "The number of the graph that was replayed."
    later: CallSite | None = None
    "The line that reads the result, if `read` is the replay of another graph that fills the same buffer."
    kept: str = ""
    "The name of the variable that keeps the result until the read."


@dataclass(frozen=True, slots=True)
class OutsideUse:
    """A graph's use of one piece of memory outside its pool."""

    what: str
    "The name of the tensor in the memory, or its type and shape."
    shape: str
    "The type and shape of the tensor."
    bytes: int
    made: CallSite | None
    access: Access
    certain: bool
    "Whether it is certain that replays use the old memory and that the program does not intend this."
    status: OutsideStatus
    frames: Calls = ()
    "The calls that led to the loss of the memory."
    heir: str | None = None
    "The type and shape of a tensor that got the lost memory afterwards."
    instead: CallSite | None = None
    "The line that made the tensor to which the name refers now."
    lost_after: int | None = None
    "The number of replays before the memory was lost."


@dataclass(frozen=True, slots=True)
class LentUse:
    """A graph's use of a tensor in its pool. Another graph has made the tensor, and a third graph now uses the tensor's
    memory."""

    use: OutsideUse
    makers: tuple[int, ...]
    "The numbers of the graphs whose replays make the tensor again."
    takers: tuple[int, ...]
    "The numbers of the graphs whose replays overwrite it."


@dataclass(frozen=True, slots=True)
class MadeState:
    """Optimizer state that the optimizer's first step created in a capture. Each replay therefore creates it again."""

    optimizer: str
    tensors: int
    frames: Calls
    "The calls that led to the step."


@dataclass(frozen=True, slots=True)
class Rotated:
    """Buffers whose names the program exchanges."""

    names: tuple[str, ...]
    at: CallSite | None
    when: Literal["captured", "replayed"]
    "Whether the program exchanges them in the captured code, or between replays."


@dataclass(frozen=True, slots=True)
class ReplacedGenerator:
    """An attribute that held a registered generator and holds another generator at a replay."""

    name: str
    frames: Calls
    "The line that replaced the generator. If it is unknown: the calls of the replay."
    is_line_known: bool


@dataclass(frozen=True, slots=True)
class GeneratorFacts:
    """The faults of the generators from which a graph draws."""

    misplaced: Calls = ()
    "The calls that registered a generator while another device was current."
    replaced: ReplacedGenerator | None = None
    seeded: Mapping[Seeding, Calls] = field(default_factory=dict)
    "The line that sets a seed. If it is unknown: the calls of a replay."


@dataclass(eq=False, slots=True)
class CaptureFacts:
    """The facts about a capture that go into the ledger unchanged."""

    number: int
    "The number of the capture in the process, from 0."
    frames: Calls
    span: Span | None
    stream: str
    thread: str
    device: str
    begun: int
    "The time of the capture, in nanoseconds since 1970."
    seconds: float = 0.0
    subgroups: bool = False
    "Whether, at the capture, the process was in a group that does not contain all ranks."
    keeps_pool: bool = False
    "Whether Inductor captured the graph only to keep a pool alive. Such a graph is empty and never replayed."
    is_again: bool = False
    "Whether this graph and the previous graph of the same line differ only in one tensor outside the pool."
    copy_of: int | None = None
    "The number of the last earlier graph of the same line that does the same work with the same memory."
    dropped: int | None = None
    "The time in nanoseconds at which the program dropped the graph or began another capture into it."
    instantiations: int = 0
    stale: Changed | None = None
    "A value of the program that differed from the graph's value, at the first replay where this happened."
    drawn: CallSite | None = None
    "A captured line that drew from a random generator of the host."
    made: MadeState | None = None
    collected: Calls = ()
    """The statement that keeps results of the graph until later replays.

    If it is unknown: the calls of the replay that overwrote kept results.
    """
    is_keeper_known: bool = True
    compared: Calls = ()
    "The line that compared a result with an earlier result that has the same memory."
    overwritten: Overwritten | None = None
    "The first read of a result after another replay has overwritten it."


@dataclass(kw_only=True, slots=True)
class GraphFacts(CaptureFacts):
    """One capture and its graph."""

    nodes: Mapping[str, int] | None
    "Kind -> the number of nodes of this kind. It is None if the nodes could not be read."
    pool_bytes: int | None = None
    collectives: bool = False
    outside: tuple[OutsideUse, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)
    "The frozen arguments, with their values."
    decided: CallSite | None = None
    "The line that decided to capture, if the last call is in a helper that captures any function passed to it."
    let_go: Calls = ()
    "The calls that led to the line at which the program first dropped a gradient of the graph."
    skipped: int = 0
    "The number of weights that had no gradient at an eager step after a replay."
    rotated: Rotated | None = None
    generators: GeneratorFacts = field(default_factory=GeneratorFacts)
    draws_from: tuple[str, ...] | None = None
    "The names of the generators from which replays draw. It is None before the first replay."
    replayed_by: tuple[tuple[str, str], ...] = ()
    "The threads and streams of the replays."
    passed_over: int = 0
    "How often another graph was given an input of exactly this graph's size, if the device can see it."
    lent: tuple[LentUse, ...] = ()
    races: tuple[Race, ...] = ()
    "Pairs of operations that use the same memory and that the graph does not order, if the device can see them."


@dataclass(frozen=True, slots=True)
class FailedCapture:
    """A capture that failed."""

    frames: Calls
    span: Span | None
    device: str
    error: str
    inner: Calls
    "The calls that led to the first error."
    generator: str | None
    "The error that was raised by drawing a random number after the failure, or None."
    guilty: StepEvent | None
    "The event that broke the capture, if it is known."
    stage: Stage
    swallowed_by: CallSite | None = None
    "The handler that caught the error. It becomes known when the handler ends."


@dataclass(frozen=True, slots=True)
class StepFacts:
    """A captured step, and its runs without a graph. A *size* is the length of an input, as text."""

    place: Calls = ()
    "The line at which most of the runs without a graph happened."
    sizes: Mapping[str, int] = field(default_factory=dict)
    "Size that no graph covers -> the number of runs."
    captured: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    "Captured size -> the numbers of its graphs."
    off: Mapping[str, int] = field(default_factory=dict)
    "Captured size -> the number of runs without a graph in a loop that replayed the graph of this size earlier."
    off_at: Calls = ()
    "The line of the first of these runs."


@dataclass(frozen=True, slots=True)
class WaitFacts:
    """How one line waited for the device."""

    event: StepEvent
    count: int
    ms: float | None
    "The total time of these waits, if it was measured."
    turns: int
    "The number of intervals between replays in which the line has waited."


@dataclass(frozen=True, slots=True)
class Refill:
    """A write to memory that a replay or an asynchronous copy reads, without an order between the two."""

    write: Calls
    replay: Calls
    what: str | None
    "The name of the memory. It is None for memory from which an asynchronous copy reads."
    is_pinned: bool
    by_host: bool
    "Whether the host writes."


@dataclass(frozen=True, slots=True)
class OutdatedTensor:
    """A tensor that graphs read. After it was computed, the program wrote to its source."""

    what: str
    source: str
    frames: Calls
    "The calls that led to the write of the source."
    replays: int
    "The number of replays since the write."


@dataclass(frozen=True, slots=True)
class Growth:
    """A line that makes a tensor longer after each replay."""

    frames: Calls
    span: Span | None
    times: int
    copied: int
    "The number of bytes that were copied in all."


@dataclass(frozen=True, slots=True)
class PoolLine:
    """The bytes in graphs' pools that one line allocated."""

    line: CallSite
    bytes: int


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The facts that depend on the kind of device."""

    machine: Platform = field(default_factory=Platform)
    devices: tuple[str, ...] = ()
    "The devices on which graphs were captured."
    gpus: tuple[str, ...] = ()
    "The UUIDs of the GPUs that have graphs."
    outdated: tuple[OutdatedTensor, ...] = ()
    growing: tuple[Growth, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """All facts of a process."""

    fault: str | None = None
    "The error that kept the process from being watched. No other facts are known then."
    graphs: tuple[GraphFacts, ...] = ()
    failed: tuple[FailedCapture, ...] = ()
    steps: tuple[StepFacts, ...] | None = None
    "The captured steps. It is None if steps without a graph cannot be seen."
    waits: tuple[WaitFacts, ...] | None = None
    "The lines that waited. It is None if waits were not recorded."
    refills: tuple[Refill, ...] = ()
    device: DeviceFacts = DeviceFacts()
    by_line: tuple[PoolLine, ...] | None = None
    "The memory of graphs by line. It is None if the lines were not recorded."
    limits: tuple[tuple[str, str, str], ...] = ()
    "Kind, subject and reason of each limit."
    evidence: Literal["measured", "predicted"] = "measured"
    rank: int | None = None
    ended: bool = False
    "Whether the program ended without an error."
    is_whole: bool = True
    "Whether these are the last facts of the process."
