"""What a scan found: events by place, call edges, roots, state, and code that was not followed."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.events import CompileTest, Event, EventKind, Span
from graphsafe.scan.domain.state_log import StateLog

ENTRY_POINT = "an entry point of an engine"
AROUND_GRAPHS = "an entry point of an engine, around its graphs"
TARGET = "target "
"Before a configured target's name."
COMPILED = "torch.compile"
"What the reason of a compiled root begins with."
HOOK = "a hook of a module or tensor"
REPLACED_FORWARD = "put in place of a forward"
SITE = "code inside torch.cuda.graph"


def reason_weight(why: str) -> int:
    """How much a root's reason says: first that torch.compile is at work, then which target it is, then all else."""
    return 2 if why.startswith(COMPILED) else 1 if why.startswith(TARGET) else 0


@frozen.dataclass(frozen=True, slots=True)
class Place:
    """Where an event is: what makes two events the same."""

    path: str
    function: str
    span: Span
    kind: EventKind
    how: str


@frozen.dataclass(frozen=True, slots=True)
class Edge:
    caller: str
    line: int
    guarded: bool
    compile_test: CompileTest | None = None


@frozen.dataclass(frozen=True, slots=True)
class Failure:
    """Code that was not followed to its end; `kind` as in a report's limits."""

    kind: str
    ref: str
    why: str


@dataclass(slots=True)
class Record:
    events: dict[Place, Event] = field(default_factory=dict)
    edges: dict[str, dict[Edge, None]] = field(default_factory=dict)
    "Function -> the places that call it."
    roots: dict[str, str] = field(default_factory=dict)
    "Root function -> why it is one."
    state: StateLog = field(default_factory=StateLog)
    replays: dict[Place, Event] = field(default_factory=dict)
    "What is at fault around replays, hot or not."
    failures: dict[Failure, None] = field(default_factory=dict)

    def edge(self, callee: str, edge: Edge) -> None:
        self.edges.setdefault(callee, {})[edge] = None
