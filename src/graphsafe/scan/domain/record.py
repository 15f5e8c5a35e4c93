"""The result of reading the code: events by place, call edges, roots, state, and code that was not followed.

A root is a function at which hot code (code that runs in every step) begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.events import CompileTest, Event, Span
from graphsafe.scan.domain.state_log import StateLog

ENTRY_POINT = "an entry point of an engine"
AROUND_GRAPHS = "an entry point of an engine, around its graphs"
TARGET = "target "
"The prefix of a configured target's reason; the target's name follows."
RETURNED = "returned by the factory "
"""The prefix of the reason for a step that a factory returns. The configuration does not name this factory, but its
signature is that of a target's factory."""
COMPILED = "torch.compile"
"The prefix of a compiled root's reason."
HANDED = "handed to a loop"
WRAPPED = "captured by "
"The prefix of the reason for a function that a wrapper captures; the wrapper's name follows."
HOOK = "a hook of a module or tensor"
PASSING_HOOK = "a hook that records, and is removed again"
"""The reason that is given when the root is a forward hook that its own file also removes. Such a hook watches some
runs of a model, and is removed before a capture."""
REPLACED_FORWARD = "replaces the forward of a module"
LOOP = "runs once per iteration, around graphs or models"
SITE = "code inside torch.cuda.graph"


def reason_weight(why: str) -> int:
    """Return the rank of a root's reason: torch.compile first, then a configured target or a wrapper that captures,
    then all others."""
    return 2 if why.startswith(COMPILED) else 1 if why.startswith((TARGET, WRAPPED)) else 0


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
        """The function, as `path::Class.method`."""
        return f"{self.path}::{self.function}"


@frozen.dataclass(frozen=True, slots=True)
class Edge:
    """A call in a hot function."""

    callee: str
    caller: str
    line: int
    guarded: bool
    compile_test: CompileTest | None = None


@frozen.dataclass(frozen=True, slots=True)
class Calls:
    """The calls that lead to an event. They pass the arguments for which the event happens."""

    edges: frozenset[Edge]
    begun: frozenset[str]
    "The roots from which the calls lead to the event."
    chain: tuple[Edge, ...] | None
    "The shortest chain of calls from a root to the event, or None if no chain is known."


@frozen.dataclass(frozen=True, slots=True)
class Failure:
    """Code that was not followed to its end. `kind` is the kind of the limit in the report."""

    kind: str
    ref: str
    why: str


@dataclass(slots=True)
class Record:
    """The facts that reading the code has found."""

    events: dict[Place, Event] = field(default_factory=dict)
    edges: dict[str, dict[Edge, None]] = field(default_factory=dict)
    "Function -> the places that call it."
    leading: dict[Place, Calls] = field(default_factory=dict)
    "Event's place -> the calls that lead to the event. Guarded events are left out."
    roots: dict[str, str] = field(default_factory=dict)
    "Root function -> the reason why it is a root."
    state: StateLog = field(default_factory=StateLog)
    replays: dict[Place, Event] = field(default_factory=dict)
    "Events at replays, in hot and in cold code."
    failures: dict[Failure, None] = field(default_factory=dict)

    def edge(self, edge: Edge) -> None:
        self.edges.setdefault(edge.callee, {})[edge] = None
