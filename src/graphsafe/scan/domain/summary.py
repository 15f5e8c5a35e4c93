"""The summary of a function for given arguments: its value, and the effects of its lines.

Code that runs in every step is hot; all other code is cold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.events import Event
from graphsafe.scan.domain.record import Edge, Failure, Place
from graphsafe.scan.domain.state_log import Read, Refill, Use, Write
from graphsafe.scan.domain.values import Passed, Tensor, Value

Field = tuple[str, str]
"A class and an attribute."
Placed = tuple[Place, Event]


@frozen.dataclass(frozen=True, slots=True)
class NewRoot:
    """A function that becomes a root: a step, or a function that is read with unknown arguments because other code may
    call it."""

    ref: str
    receiver: Value | None
    "The object on which the method is called. If the root is a closure, this is the closure itself."
    why: str
    "The reason why the function is a root. The reason is an empty string for a function that is called from hot code."
    guarded: bool = False
    given: Passed | None = None
    "The arguments of the call, if known."


@frozen.dataclass(frozen=True, slots=True)
class RootSite:
    """A function that contains a capture."""

    ref: str


@frozen.dataclass(frozen=True, slots=True)
class PassedByName:
    """A tensor that a call passes to a method that may be a root."""

    method: str
    "The name of the method, or its ref if the call shows the class."
    tensor: Tensor


@frozen.dataclass(frozen=True, slots=True)
class StepInput:
    """An attribute whose tensor changes from step to step."""

    attribute: str


@frozen.dataclass(frozen=True, slots=True)
class MadeInStep:
    """A class of the project. Steps make objects of this class."""

    ref: str


@dataclass(slots=True)
class Included:
    """A call. It includes the summary of the called function as one item among the effects of the lines."""

    summary: Summary
    callee: str
    guarded: bool
    "Whether no capture reaches the call."
    seldom: bool = False
    "For a guarded call: whether some steps still reach the call, as under `if step % 100 == 0`."
    without_uses: bool = False
    """Whether the call is in a condition that does not affect the device's work. Uses of state in the callee are then
    ignored."""
    once: bool = False
    "Whether the call runs only to fill a missing value. A graph that is captured in such a call is replayed later."
    sure: bool = False
    "Whether every call of the calling function runs this call."


Item = (
    Edge | NewRoot | RootSite | PassedByName | StepInput | MadeInStep | Included | Failure | Read | Refill | Use | Write
)


@dataclass(slots=True)
class Effects:
    """The effects of lines while they are being read: items in the order of the step, and events by place."""

    outer: Effects | None = None
    "The effects of the calling function."
    items: list[Item] = field(default_factory=list)
    noted: set[int] = field(default_factory=set)
    "The ids of items that must be recorded only once."
    events: dict[Place, Placed] = field(default_factory=dict)
    written: dict[Field, list[Value]] = field(default_factory=dict)
    """Attribute -> the values that it gets in cold code and in the functions that cold code calls, in the order of the
    code."""
    expected: dict[Field, list[Value]] = field(default_factory=dict)
    "Attribute that is None at first -> values that its annotation allows."
    constructed: dict[Field, list[Value]] = field(default_factory=dict)
    "Attribute or constructor parameter of a class -> the values that calls of the class give to it."

    def has_used(self, since: int) -> bool:
        """Return whether an item from index `since` on uses state of the host."""
        # The length is compared first, because most conditions record nothing.
        return len(self.items) > since and any(map(has_uses, self.items[since:]))

    def forget_uses(self, since: int, end: int) -> None:
        """Drop the uses in the items of a condition, from `since` to `end`, because the condition does not affect the
        device."""
        condition = self.items[since:end]
        for item in condition:
            if type(item) is Included:
                item.without_uses = True
        self.items[since:end] = [item for item in condition if type(item) is not Use]

    def forget_read(self, key: str) -> None:
        """Drop the read of a tensor, because the code read only the tensor's shape or dtype and not its values."""
        dropped = [item for item in self.items if type(item) is Read and item.key == key]
        self.noted.difference_update(map(id, dropped))
        self.items = [item for item in self.items if item not in dropped]


class Shared:
    """Stores one shared object for all equal objects. This saves memory, because a function that is read for different
    arguments records nearly the same items each time."""

    def __init__(self) -> None:
        self._items: dict[Item, Item] = {}
        self._events: dict[Place, Placed] = {}

    def item(self, item: Item) -> Item:
        try:
            return self._items.setdefault(item, item)
        except TypeError:
            # The item contains a constant that has no hash.
            return item

    def event(self, place: Place, event: Event) -> Placed:
        """Return a shared event. Events have no hash, so only the last event of each place is shared."""
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
    "Whether state of the host affects the device's work, in this function or in functions that it calls."

    @property
    def is_empty(self) -> bool:
        """Whether the summary contains nothing about hot code. Callers then need not include it."""
        return not (self.items or self.events or self.constructed)

    def stands_for(self, other: Summary) -> bool:
        """Return whether two summaries are the same for callers. If so, this summary takes over the items and events of
        the other one."""
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
