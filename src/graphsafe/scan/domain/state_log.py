"""What hot code does to state that outlives the step, collected for checks/state_across_steps.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.events import CompileTest, Span
from graphsafe.scan.domain.values import Value

Place = tuple[str, Span]
"Path and span."
UseKind = Literal["operand", "index", "branch", "argument"]


@frozen.dataclass(frozen=True, slots=True)
class Write:
    """An assignment to an attribute, a global, or an element of a container held by one."""

    key: str
    "`path::Class.attr` of the class that the code names, `path::name` of a global."
    text: str
    "As the code writes it: `self.count`."
    path: str
    function: str
    span: Span
    value: Value
    before: Value | None
    "What it held before the step, as far as constructors show."
    augmented: bool
    reads_self: bool
    "The new value was computed from the old one."
    lazy: bool
    "Stands under a test of the attribute's own absence."
    keyed: bool
    "An element of a container (`self.cache[key] = …`)."
    guard: str | None
    grows: bool = False
    "Concatenates to the old value, appends to it, or makes it larger where it is too small."
    borrowed: bool = False
    "The object belongs to what the step was given: it may be another one in the next step."
    alone: bool = True
    "For a lazy value: the line runs only where it is missing."
    rare: bool = False
    "Most steps do not run it, or it only converts the values."
    compile_test: CompileTest | None = None
    constructed: bool = False
    "The value is an object made here; only its class says what it keeps."
    dropped: bool = True
    "For an element of a table: something empties it."
    sources: frozenset[str] = frozenset()
    "For a lazy value: the attributes whose tensors it was computed from."

    @property
    def place(self) -> Place:
        return self.path, self.span


@frozen.dataclass(frozen=True, slots=True)
class Use:
    """A place where a host number that is state decides what the device does."""

    key: str
    kind: UseKind
    path: str
    function: str
    line: int

    @property
    def place(self) -> tuple[str, str, int]:
        """What makes two uses the same."""
        return self.key, self.path, self.line


@frozen.dataclass(frozen=True, slots=True)
class Read:
    """Hot code reads an attribute."""

    key: str


@dataclass(slots=True)
class StateLog:
    """Of all roots together; what comes first in a step is told root by root."""

    writes: dict[Place, list[Write]] = field(default_factory=dict)
    "Those of one place differ in the arguments of the function around it."
    uses: dict[tuple[str, str, int], Use] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    "Attributes whose tensors change from step to step: written in place, or read by a step that takes no arguments."
    read_before: set[Place] = field(default_factory=set)
    "Places that write what the same step has read before."
    used_before: dict[Place, set[tuple[str, str, int]]] = field(default_factory=dict)
    "Place that writes -> the uses of what it writes that come before it in the same step."
