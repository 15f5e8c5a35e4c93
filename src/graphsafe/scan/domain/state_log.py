"""What hot code does to state that outlives the step; the whole-program checks judge it when all code has been read."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.events import CompileTest, Span
from graphsafe.scan.domain.values import Number, Value

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

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
    order: float
    grows: bool = False
    "Concatenates to the old value, appends to it, or makes it larger where it is too small."
    borrowed: bool = False
    "The object belongs to what the step was given: it may be another one in the next step."
    alone: bool = True
    "For a lazy value: nothing but its absence leads there."
    rare: bool = False
    "Stands where most steps do not come, or puts the same values in another form."
    compile_test: CompileTest | None = None
    constructed: bool = False
    "The value is an object made here, of which only its class says what it keeps."
    sources: frozenset[str] = frozenset()
    "For a lazy value: the attributes whose tensors it was computed from."


@frozen.dataclass(frozen=True, slots=True)
class Use:
    """A place where a host number that is state decides what the device does."""

    key: str
    kind: UseKind
    path: str
    function: str
    line: int
    order: float

    @property
    def place(self) -> tuple[str, str, int]:
        """What makes two uses the same."""
        return self.key, self.path, self.line


@dataclass(slots=True)
class StateLog:
    writes: dict[tuple[str, Span], Write] = field(default_factory=dict)
    uses: dict[tuple[str, str, int], Use] = field(default_factory=dict)
    reads: dict[str, float] = field(default_factory=dict)
    "Attribute -> when it was first read in hot code."
    inputs: set[str] = field(default_factory=set)
    "Attributes whose tensors change from step to step: written in place, or read by a step that takes no arguments."
    clock: float = 0
    tact: float = 1
    "How far the clock goes at a time: less where something is read again, between what was read before and after it."

    def tick(self) -> float:
        self.clock += self.tact
        return self.clock

    def write(self, write: Write) -> None:
        place = (write.path, write.span)
        known = self.writes.get(place)
        if known is None or (known.guard is not None and write.guard is None):
            self.writes[place] = write

    def use(self, use: Use) -> None:
        self.uses.setdefault(use.place, use)

    def forget_uses(self, count: int) -> None:
        """Drop all but the first `count` uses: the condition that made the others decides nothing on the device."""
        while len(self.uses) > count:
            self.uses.popitem()

    def read(self, key: str) -> None:
        self.reads.setdefault(key, self.tick())


def use_number(engine: Engine, frame: Frame, value: Value, kind: UseKind, node: ast.AST) -> None:
    """Note that a host number which is state decides what the device does here."""
    if frame.hot and isinstance(value, Number) and value.state is not None:
        line: int = node.lineno  # type: ignore[attr-defined]
        engine.note_use(Use(value.state, kind, frame.path, frame.function, line, engine.state.tick()))
