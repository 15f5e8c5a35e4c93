"""The result of reading: events by place, call edges, roots, state, and code that was not followed."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.events import CompileTest, Event, Span
from graphsafe.scan.domain.state_log import StateLog

ENTRY_POINT = "an entry point of an engine"
AROUND_GRAPHS = "an entry point of an engine, around its graphs"
TARGET = "target "
"The beginning of the reason of a configured target; its name follows."
RETURNED = "returned by the factory "
"The beginning of the reason of a factory that is not configured but looks like a target's."
COMPILED = "torch.compile"
"The beginning of the reason of a compiled root."
HANDED = "handed to a loop"
WRAPPED = "captured by "
"The beginning of the reason of a function that a wrapper captures; the wrapper's name follows."
HOOK = "a hook of a module or tensor"
PASSING_HOOK = "a hook that records, and is removed again"
"""The reason for a forward hook that its file removes: such a hook watches some runs of a model, and is removed before
a capture."""
REPLACED_FORWARD = "put in place of a forward"
LOOP = "runs once an iteration, around graphs or models"
SITE = "code inside torch.cuda.graph"


def reason_weight(why: str) -> int:
    """Rank a root's reason: first torch.compile, then a configured target, then all others."""
    return 2 if why.startswith(COMPILED) else 1 if why.startswith(TARGET) else 0


@frozen.dataclass(frozen=True, slots=True)
class Place:
    """The place of an event. Two events at the same place count as one."""

    path: str
    function: str
    span: Span
    kind: EventKind
    how: str

    @property
    def ref(self) -> str:
        """Return the function: `path::Class.method`."""
        return f"{self.path}::{self.function}"


@frozen.dataclass(frozen=True, slots=True)
class Edge:
    caller: str
    line: int
    guarded: bool
    compile_test: CompileTest | None = None


@frozen.dataclass(frozen=True, slots=True)
class Failure:
    """Code that was not followed to its end; `kind` is the kind of the report's limit."""

    kind: str
    ref: str
    why: str


@dataclass(slots=True)
class Record:
    events: dict[Place, Event] = field(default_factory=dict)
    edges: dict[str, dict[Edge, None]] = field(default_factory=dict)
    "Function -> the places that call it."
    roots: dict[str, str] = field(default_factory=dict)
    "Root function -> the reason why it is one."
    state: StateLog = field(default_factory=StateLog)
    replays: dict[Place, Event] = field(default_factory=dict)
    "Events around replays, in hot and in cold code."
    failures: dict[Failure, None] = field(default_factory=dict)

    def edge(self, callee: str, edge: Edge) -> None:
        self.edges.setdefault(callee, {})[edge] = None
