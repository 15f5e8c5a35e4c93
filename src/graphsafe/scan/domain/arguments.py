"""What a call passes, and to what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from graphsafe.scan.domain.frozen import dataclass
from graphsafe.scan.domain.held import state_of
from graphsafe.scan.domain.values import Unknown, Value, depends_on_step, holds_device

TOP_LEVEL = 2
"How many levels of methods that assign attributes are read, each to know what the level above stores."


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call, evaluated."""

    positional: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)
    open: bool = False
    "`*args` or `**kwargs` may pass more."

    def get(self, position: int, name: str) -> Value | None:
        if name in self.keywords:
            return self.keywords[name]
        return self.positional[position] if 0 <= position < len(self.positional) else None

    def values(self) -> Iterable[Value]:
        return (*self.positional, *self.keywords.values())


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the project that is to be read for these arguments."""

    ref: str
    bound: Value | None = None
    arguments: Arguments = Arguments()
    hot: bool = False
    "Whether what its lines do is emitted."
    depth: int = 0
    "As in the frame of the call, and so is the next."
    level: int = TOP_LEVEL
    plain: bool = False
    "As it was before its decorators."
    captured: bool = False
    "A capture calls it, and cold-paths name it: they do not hold there."


def unknown_result(arguments: Arguments) -> Unknown:
    """What a call of something unknown returns: unknown, but derived from the arguments."""
    given = tuple(arguments.values())
    state = next(filter(None, map(state_of, given)), None)
    return Unknown(any(map(depends_on_step, given)), any(map(holds_device, given)), state=state)
