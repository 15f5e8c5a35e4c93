"""Reads, writes and uses of state that outlives the step, collected for state/across_steps.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.events import CompileTest, Span
from graphsafe.scan.domain.values import Value

SELDOM = "reached only in a few steps"
"The guard of a write in a function that most steps do not call."
Place = tuple[str, Span]
"A path and a span in that file."
UseKind = Literal["operand", "index", "branch", "argument"]


@frozen.dataclass(frozen=True, slots=True)
class Write:
    """An assignment to an attribute or a global, or to an element of a container in an attribute or a global."""

    key: str
    """The written state: `path::name` for a global, `path::Class.attr` for an attribute. A subclass shares the key of
    the topmost base class that assigns the attribute."""
    text: str
    "The target as written in the code: `self.count`."
    path: str
    function: str
    span: Span
    value: Value
    before: Value | None
    "The value before the step, if constructors show it."
    augmented: bool
    reads_self: bool
    "Whether the new value was computed from the old one."
    lazy: bool
    "Whether the write is lazy: it runs only if the attribute is missing."
    keyed: bool
    "Whether the write is to an element of a container (`self.cache[key] = …`)."
    guard: str | None
    grows: bool = False
    "Whether the write makes the value larger: the write concatenates, appends, or replaces a value that is too small."
    outgrown: bool = False
    "Whether the write runs only if the old value is too small."
    past_maximum: bool = False
    """Whether the write enlarges a table, and runs only if a step exceeds the maximum for which the constructor made
    the table."""
    borrowed: bool = False
    "Whether the object belongs to the step's arguments. If so, the next step may receive another object."
    lasting: bool = False
    """Whether the state belongs to `self`, the file, a torch module, or an object that a caller passes.

    An object from a container (`for batch in batches: batch.ids = ids`) may not be the object that the graph uses.
    """
    alone: bool = True
    "For a lazy value: whether the line runs only if this value is missing."
    rare: bool = False
    "Whether most steps skip the write."
    remade: bool = False
    "Whether the write makes a new tensor because the existing one has another shape."
    settled: bool = False
    "Whether the write only converts the value, or is part of the code that makes another missing value."
    compile_test: CompileTest | None = None
    replaces: bool = False
    """Whether a new module, or a new object with tensors, replaces the one that the constructor made. For an element of
    a table: whether the constructor put tensors into the table."""
    dropped: bool = True
    "For an element of a table: whether some line empties the table."
    handed: bool = False
    """For a borrowed object: whether the object may still outlive the step, because it allocates its own memory as a
    cache does."""
    refilled: bool = False
    """For a line that runs only in the first step: whether other steps copy into the value, as in
    `self.buffer[:n].copy_(x)`."""
    between: bool = False
    "Whether the write is in code that runs between steps."
    sources: frozenset[str] = frozenset()
    "For a lazy value: the attributes from whose tensors the value was computed."
    continues: bool = False
    "Whether the write reads a value that the same call has set before."
    resets: bool | None = False
    """Whether the write runs in every call of its function, and sets a value that does not depend on earlier steps. The
    field is None if the write sets such a value, but only in some calls."""
    chosen: bool = False
    "Whether the value is an element of an attribute: `self.x = self.inputs[n]`."

    @property
    def ref(self) -> str:
        """The function, as `path::Class.method`."""
        return f"{self.path}::{self.function}"

    @property
    def place(self) -> Place:
        return self.path, self.span


@frozen.dataclass(frozen=True, slots=True)
class Use:
    """A place where a host number that outlives the step affects the device's work."""

    key: str
    kind: UseKind
    path: str
    function: str
    line: int

    @property
    def ref(self) -> str:
        """The function, as `path::Class.method`."""
        return f"{self.path}::{self.function}"

    @property
    def place(self) -> tuple[str, str, int]:
        """The key of the use; two uses at the same place count once."""
        return self.key, self.path, self.line


@frozen.dataclass(frozen=True, slots=True)
class Read:
    """A read of an attribute in hot code."""

    key: str
    ref: str
    "The function that reads the attribute."
    captured: bool = False
    "Whether the read is in a captured block of the function."
    own: bool = False
    "Whether the same call has set the attribute before this read."


@frozen.dataclass(frozen=True, slots=True)
class Refill:
    """A line that writes new values into the memory of an attribute's tensor, or of all weights of a module."""

    key: str
    text: str
    "The line's expression as written in the code."
    path: str
    function: str
    span: Span

    @property
    def ref(self) -> str:
        """The function, as `path::Class.method`."""
        return f"{self.path}::{self.function}"


@dataclass(slots=True)
class StateLog:
    """The state of all roots together. The order of reads, uses and writes is recorded for each root."""

    writes: dict[Place, list[Write]] = field(default_factory=dict)
    "Writes by place. Several writes at one place differ in the arguments of the enclosing function."
    between: dict[Place, list[Write]] = field(default_factory=dict)
    "Writes in code that runs occasionally between steps, for example in the iterations of an outer loop."
    uses: dict[tuple[str, str, int], Use] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    """Attributes whose tensors get new values from step to step: a line writes into them, or a step without arguments
    reads them as its inputs."""
    refills: set[Refill] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    "Classes of which steps make objects, with their base classes."
    read_before: set[Place] = field(default_factory=set)
    "Places of writes to state that the same step has read before the write."
    read_old: set[str] = field(default_factory=set)
    "Attributes and globals that some step may read before it initialises them."
    readers: dict[str, set[Read]] = field(default_factory=dict)
    "Attribute or global -> its reads."
    used_before: dict[Place, set[tuple[str, str, int]]] = field(default_factory=dict)
    "Place of a write -> the earlier uses of the written state in the same step."
    continued: dict[Place, set[str]] = field(default_factory=dict)
    "Place of a write that reads the old value -> the roots that initialise the state earlier in the same step."
    carried: dict[Place, set[str]] = field(default_factory=dict)
    "Place of a write that reads the old value -> the roots in which this value may come from the previous step."
    fresh: set[Place] = field(default_factory=set)
    "Places of writes to state that each step initialises before using it (linting/fresh_starts.py)."
