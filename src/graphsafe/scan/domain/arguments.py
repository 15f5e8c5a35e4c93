"""Calls and their arguments."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from functools import reduce

from graphsafe.scan.domain.frozen import dataclass
from graphsafe.scan.domain.held import state_of
from graphsafe.scan.domain.numbers import NO_STATE, both_states
from graphsafe.scan.domain.values import UNKNOWN, Function, Passed, Unknown, Value, depends_on_step, holds_device

TOP_LEVEL = 2
"""The highest level at which the scan reads the methods that assign an attribute. While it reads a method at one level,
each attribute has the values that methods assign to it at the level below."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The evaluated arguments of a call."""

    positional: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)
    further: Value | None = None
    """The value of each further argument that `*args` or `**kwargs` may pass. UNKNOWN means that this value is not
    known. None means that there are no further arguments."""

    def get(self, position: int, name: str) -> Value | None:
        if name in self.keywords:
            return self.keywords[name]
        return self.positional[position] if 0 <= position < len(self.positional) else None

    @property
    def first(self) -> Value:
        """The first positional argument, or an unknown value if there is none."""
        return self.positional[0] if self.positional else UNKNOWN

    def values(self) -> Iterable[Value]:
        return (*self.positional, *self.keywords.values())

    @property
    def passed(self) -> Passed:
        return Passed(self.positional, tuple(self.keywords.items()))


def arguments_of(passed: Passed | None) -> Arguments:
    """Return the `Arguments` for `passed`, or empty arguments for None."""
    return Arguments() if passed is None else Arguments(passed.positional, dict(passed.keywords))


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the project, and the arguments for which it is to be read."""

    ref: str
    bound: Value | None = None
    arguments: Arguments = Arguments()
    hot: bool = False
    "Whether the function's lines emit events."
    depth: int = 0
    "The depth of the call, as in `Frame.depth`. For `level`, see TOP_LEVEL."
    level: int = TOP_LEVEL
    plain: bool = False
    "Whether the call bypasses the function's decorators."
    captured: bool = False
    "Whether a capture calls the function. The `cold-paths` setting then does not apply to the function."
    loops: tuple[int, ...] = ()
    "The first line of each loop whose body runs in every step. The code around these loops runs once."
    between: bool = False
    """Whether the function runs occasionally, between steps. Its lines then emit no events, but their changes of state
    are recorded."""
    composes: bool = False
    """Whether the function assembles the objects of a step. If so, calls are followed to more levels, and each object
    has its own attributes."""

    def question(self, out_of_scope: int) -> tuple[Hashable, ...]:
        """Return the key under which the summary for this call is stored (queries.py). The last four parts of the key
        are the receiver and the arguments."""
        given = self.arguments
        return (
            "read", self.ref, self.hot, self.depth, self.level, self.plain, self.captured, self.loops, self.between,
            self.composes, out_of_scope, self.bound, given.positional, tuple(given.keywords.items()), given.further,
        )  # fmt: skip


def behind_partial(function: Function, arguments: Arguments) -> Arguments:
    """Return the arguments that `f` receives in a call of `partial(f, …)`."""
    if not (function.partial or function.partial_keywords):
        return arguments
    keywords = {**dict(function.partial_keywords), **arguments.keywords}
    return Arguments((*function.partial, *arguments.positional), keywords, arguments.further)


def unknown_result(arguments: Arguments) -> Unknown:
    """Return the result of an unknown call: an unknown value that derives from the arguments."""
    given = tuple(arguments.values())
    state = reduce(both_states, map(state_of, given), NO_STATE)
    return Unknown(any(map(depends_on_step, given)), any(map(holds_device, given)), state=state)
