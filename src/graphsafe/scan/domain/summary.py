"""The summary of a function for given arguments: its value, and what its lines do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.events import CompileTest, Event
from graphsafe.scan.domain.record import Edge, Failure, Place
from graphsafe.scan.domain.state_log import Read, Use, Write
from graphsafe.scan.domain.values import Tensor, Value

Field = tuple[str, str]
"Class and attribute."
Placed = tuple[Place, Event]


@frozen.dataclass(frozen=True, slots=True)
class CallEdge:
    callee: str
    edge: Edge


@frozen.dataclass(frozen=True, slots=True)
class NewRoot:
    """A function that is hot by itself: a step, or one that a call may mean whose arguments are not followed."""

    ref: str
    receiver: Value | None
    why: str
    "Empty where it is not a root but is called from hot code."
    guarded: bool = False


@frozen.dataclass(frozen=True, slots=True)
class RootSite:
    """A function that holds a capture."""

    ref: str


@frozen.dataclass(frozen=True, slots=True)
class PassedByName:
    """A tensor that is passed to a method of which only the name is known; its own name is the parameter's."""

    method: str
    tensor: Tensor


@frozen.dataclass(frozen=True, slots=True)
class StepInput:
    """An attribute whose tensor changes from step to step."""

    attribute: str


@dataclass(slots=True)
class Included:
    """A call: the summary of what it calls, at its place in the order of lines."""

    summary: Summary
    guarded: bool
    "Reached only where captures do not go."
    without_uses: bool = False
    "It is part of a condition that decides nothing on the device."


Item = CallEdge | NewRoot | RootSite | PassedByName | StepInput | Included | Failure | Read | Use | Write


@dataclass(slots=True)
class Effects:
    """What lines do, while they are being read: items in the order of the step, events by place."""

    outer: Effects | None = None
    "Those of the calling function."
    items: list[Item] = field(default_factory=list)
    noted: set[int] = field(default_factory=set)
    "The ids of items of which only the first of equal ones counts."
    events: dict[Place, Placed] = field(default_factory=dict)
    written: dict[Field, list[Value]] = field(default_factory=dict)
    "What cold code assigns to attributes, in order, with what it calls."
    expected: dict[Field, list[Value]] = field(default_factory=dict)
    "What attributes that are None at first will hold, by their annotations."
    constructed: dict[Field, list[Value]] = field(default_factory=dict)
    "What calls of classes of plain fields put into these."

    def has_used(self, since: int) -> bool:
        """Whether state of the host has been used since there were so many items: by a condition."""
        # Most conditions note nothing at all.
        return len(self.items) > since and any(map(has_uses, self.items[since:]))

    def forget_uses(self, since: int) -> None:
        """Drop these uses: the condition that made them decides nothing on the device."""
        for item in self.items[since:]:
            if type(item) is Included:
                item.without_uses = True
        self.items[since:] = [item for item in self.items[since:] if type(item) is not Use]


class Shared:
    """One object for all that are equal: readings of a function for other arguments note much the same."""

    def __init__(self) -> None:
        self._items: dict[Item, Item] = {}
        self._calls: dict[tuple[str, str, int, bool, CompileTest | None], CallEdge] = {}
        self._events: dict[Place, Placed] = {}

    def item(self, item: Item) -> Item:
        try:
            return self._items.setdefault(item, item)
        except TypeError:
            # It names a constant without a hash.
            return item

    def call(self, callee: str, caller: str, line: int, guarded: bool, compile_test: CompileTest | None) -> CallEdge:
        key = callee, caller, line, guarded, compile_test
        known = self._calls.get(key)
        if known is None:
            known = self._calls[key] = CallEdge(callee, Edge(caller, line, guarded, compile_test))
        return known

    def event(self, place: Place, event: Event) -> Placed:
        """An event has no hash: the last one of its place is the one that is shared."""
        known = self._events.get(place)
        if known is None or known[1] != event:
            known = self._events[place] = place, event
        return known


@dataclass(slots=True)
class Summary:
    value: Value
    items: Sequence[Item]
    events: Sequence[Placed]
    written: Mapping[Field, Sequence[Value]]
    expected: Mapping[Field, Sequence[Value]]
    constructed: Mapping[Field, Sequence[Value]]
    has_uses: bool
    "Whether state of the host decides what the device does, here or in what is called."

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing about hot code: callers do not refer to such."""
        return not (self.items or self.events or self.constructed)

    def stands_for(self, other: Summary) -> bool:
        """Whether all that callers see of the other one is in this; then it takes over the rest of what that says."""
        if self.is_empty and not other.is_empty:
            return False
        seen = (self.value, self.written, self.expected, self.constructed, self.has_uses)
        if seen != (other.value, other.written, other.expected, other.constructed, other.has_uses):
            return False
        self.items, self.events = other.items, other.events
        return True


_NONE: Mapping[Field, Sequence[Value]] = {}


def summary_of(value: Value, effects: Effects) -> Summary:
    return Summary(
        value,
        tuple(effects.items),
        tuple(effects.events.values()),
        effects.written or _NONE,
        effects.expected or _NONE,
        effects.constructed or _NONE,
        any(map(has_uses, effects.items)),
    )


def has_uses(item: Item) -> bool:
    return type(item) is Use or (type(item) is Included and item.summary.has_uses and not item.without_uses)
