"""Events about state that a step writes for later steps, if a replay does not repeat the write or does not use the new
value. Functions that look for one kind of event return None if a write has no such event.

The events depend only on the state log. Each event is at the line that writes the state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from graphsafe.report.model import Confidence, Level
from graphsafe.scan.domain.events import Event, plainness
from graphsafe.scan.domain.held import PARAM_GROUPS, state_of
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.record import Place
from graphsafe.scan.domain.state_log import StateLog, Use, Write
from graphsafe.scan.domain.values import (
    Dict,
    Instance,
    NoneValue,
    Number,
    Tensor,
    Union,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
    describe,
    holds_device,
    may_be_none,
    options,
)
from graphsafe.scan.domain.values import Sequence as SequenceValue
from graphsafe.scan.state import host_clock


def placed(write: Write, event: Event) -> tuple[Place, Event]:
    """Return an event about a write, with its place."""
    return Place(write.path, write.function, event.span, event.kind, event.how), event


def events(log: StateLog, is_held: Callable[[str], bool]) -> Iterator[tuple[Place, Event]]:
    """Yield the events, at most one per place. `is_held` tells whether a graph of the project contains a function.

    If a place has several causes, the most precise one is used. If several calls lead to the place, the most certain
    event is yielded.
    """
    lazy = {write.key for writes in log.writes.values() for write in writes if write.lazy}
    flow = StateFlow(log)
    for place, writes in log.writes.items():
        if place in log.fresh:
            continue
        found: list[tuple[Write, Event]] = []
        # If a test finds that a buffer is too small, the write that enlarges it is the most precise cause.
        for write in (
            [write for write in writes if write.outgrown] or [write for write in writes if write.grows] or writes
        ):
            event = (
                growing(write, flow, log)
                or lazy_init(write, flow, log)
                or cached(write)
                or host_state(write, flow, log)
                or (None if write.key in lazy and not write.reads_self else rebound(write, flow, log, is_held))
            )
            if event is not None:
                found.append((write, event))
        if found:
            yield placed(*min(found, key=_rank))


class StateFlow:
    """The flow of values between attributes and globals: the state that is computed from other state, and the places
    that use it."""

    def __init__(self, log: StateLog) -> None:
        self._uses: dict[str, list[Use]] = {}
        for use in log.uses.values():
            self._uses.setdefault(use.key, []).append(use)
            # A scheduler may write the groups of an optimizer without knowing the optimizer's class.
            of_any_optimizer = use.key[max(use.key.find(PARAM_GROUPS), 0) :]
            if of_any_optimizer != use.key:
                self._uses.setdefault(of_any_optimizer, []).append(use)
        self._fed: dict[str, set[str]] = {}
        "State -> other state that is computed from it."
        self.moved: set[str] = set()
        "Attributes to which steps assign another tensor."
        self.renewed: set[str] = set()
        "Attributes for which each step after the first one computes another tensor."
        self.taken: set[tuple[str, str | None]] = set()
        "Pairs of attributes. A step assigns the tensor of the second attribute to the first one."
        self.emptied: set[str] = set()
        "Containers that steps replace by new ones."
        self.joined_on_host: set[str] = set()
        "Attributes that a step makes larger by joining tensors on the host."
        self.passing: set[str] = set()
        "Attributes of objects that a step makes for itself."
        for writes in log.writes.values():
            for write in writes:
                if write.borrowed and not write.handed:
                    self.passing.add(write.key)
                for source in state_of(write.value):
                    if source != write.key:
                        self._fed.setdefault(source, set()).add(write.key)
                tensor = as_tensor(write.value)[0]
                if not (write.keyed or write.lazy) and tensor is not None:
                    self.moved.add(write.key)
                    if not (write.settled or write.guard or write.borrowed):
                        self.renewed.add(write.key)
                    self.taken.add((write.key, tensor.attr))
                if write.grows and write.reads_self and tensor is not None and tensor.where == "host":
                    self.joined_on_host.add(write.key)
                kinds = {type(option) for option in options(write.value)}
                if not write.reads_self and kinds & {SequenceValue, Dict}:
                    self.emptied.add(write.key)

    def uses(self, key: str) -> Collection[Use]:
        """Return the places where a number affects the device's work, directly or through other state."""
        return [use for fed in self._reached(key) for use in self._uses.get(fed, ())]

    def feeds_itself(self, write: Write) -> bool:
        """Return whether the new value was computed from the old one, possibly through other state."""
        return write.reads_self or not frozenset(self._reached(write.key)).isdisjoint(state_of(write.value))

    def _reached(self, key: str) -> list[str]:
        found = {key}
        waiting = [key]
        while waiting:
            further = self._fed.get(waiting.pop(), set()) - found
            found |= further
            waiting += further
        return sorted(found)


def _rank(judged: tuple[Write, Event]) -> tuple[object, ...]:
    event = judged[1]
    return *plainness(event), event.kind, event.how, repr(event)


def growing(write: Write, flow: StateFlow, log: StateLog) -> Event | None:
    """Return the event for a tensor or list that grows step by step, or for a buffer that a larger one replaces. A
    buffer that no step reads gets no event. A tensor on the host gets no event either, because no graph holds its
    memory. If code copies this tensor to the device, the copy has an event of its own."""
    tensor = as_tensor(write.value)[0]
    may_hold_tensor = holds_device(write.value) and type(write.value) is not Unknown
    if not write.grows or (tensor is None and not may_hold_tensor):
        return None
    if tensor is not None and (tensor.ndim == 0 or tensor.where == "host"):
        return None
    # If a step appends to a list, it may also empty the list itself, or the dict that holds the list.
    lists = {write.key, write.key.rpartition("[")[0]}
    appended = write.keyed and write.augmented and not flow.emptied.isdisjoint(lists)
    # torch joins only tensors of one device. So if one write joins host tensors, all tensors of this attribute are on
    # the host.
    doubtful = appended or write.past_maximum or write.key in flow.joined_on_host
    confidence = "possible" if doubtful else _confidence(write.value)
    if write.outgrown and write.key not in log.readers:
        return None
    if write.outgrown:
        return event_of(write, "Alloc", "outgrown", confidence, "warning")
    return event_of(write, "Alloc", "appended" if write.keyed else "growing", confidence)


def lazy_init(write: Write, flow: StateFlow, log: StateLog) -> Event | None:
    """Return the event for a value that only the first step computes. A graph that is captured after a warm-up does not
    contain this computation."""
    if write.refilled:
        return _adopted(write)
    if write.key in flow.renewed:
        return None
    kinds = {type(option) for option in options(write.value)}
    if not write.lazy or kinds.isdisjoint((Tensor, Instance, SequenceValue, Dict, Unknown)):
        return None
    if write.key in log.inputs or _is_view(write.value):
        return None
    if depends_on_step(write.value):
        # The value of a new object is doubtful, because its constructor may have read only the shapes of its arguments.
        # The value of an unknown call is doubtful, because it may be a kernel or the name of a kernel, which a graph
        # may keep.
        doubtful = Instance in kinds or not write.alone or type(write.value) is Unknown
        confidence = "possible" if doubtful else _confidence(write.value)
        return event_of(write, "AttrWrite", "lazy-init", confidence)
    if write.sources & log.inputs:
        return event_of(write, "AttrWrite", "lazy-init", _confidence(write.value), "warning")
    if write.sources:
        # The value is computed from the module's own tensors, so it is stale only if code outside the step writes these
        # tensors later.
        return event_of(write, "AttrWrite", "lazy-init", "likely", "note")
    return None


def _adopted(write: Write) -> Event | None:
    """Return the event for a tensor that the first step stores as a buffer. Later steps copy their tensors into this
    buffer, which has the size of the first tensor."""
    tensor, _ = as_tensor(write.value)
    is_made = tensor is not None and (tensor.fresh or tensor.attr is not None or tensor.where == "host")
    is_known = tensor is not None or holds_device(write.value)
    if is_made or not is_known or write.keyed or write.borrowed or not write.lasting:
        return None
    return event_of(write, "AttrWrite", "adopted", "likely", "warning")


def _is_view(value: Value) -> bool:
    """Return whether a value is a view like `self.buffer[:n]`. A view computes nothing and shows later writes to the
    buffer."""
    return all(type(option) is Tensor and option.attr is not None and not option.fresh for option in options(value))


def cached(write: Write) -> Event | None:
    """Return the event for device tensors that may be freed while a graph uses them. Some code empties their table, or
    replaces them if an input has another shape."""
    dropped = write.lazy and write.keyed and not write.grows and write.dropped
    if not (dropped or (write.remade and not write.borrowed and not _is_view(write.value))):
        return None
    # An entry may contain several tensors together with the key: `self.cast[dtype] = (version, weight)`.
    value = write.value
    parts = value.items if type(value) is SequenceValue and value.kind == "tuple" else (value,)
    for part in parts or ():
        tensor, certain = as_tensor(part)
        if tensor is not None and tensor.where != "host" and certain:
            confidence = "possible" if write.past_maximum else _confidence(part)
            return event_of(write, "AttrWrite", "cached", confidence)
    return None


def host_state(write: Write, flow: StateFlow, log: StateLog) -> Event | None:
    """Return the event for a changing host number that affects the device's work. A graph keeps the number's value from
    the capture."""
    if not is_number(write.value) or write.lazy or write.rare or write.settled:
        return None
    if write.borrowed and (not write.handed or write.key in flow.passing):
        return None
    if write.keyed and write.augmented and write.key in flow.emptied:
        return None
    uses = [use for use in flow.uses(write.key) if not _is_increment(use, write)]
    if write.borrowed:
        uses = [use for use in uses if use.kind == "index"]
    if write.key.startswith(host_clock.KEY):
        uses = [use for use in uses if use.kind != "branch"]
    if not flow.feeds_itself(write):
        before = log.used_before.get(write.place, ())
        # The step clears a flag that the constructor set: `self.first = False`.
        is_cleared = const_of(write.value) is False and const_of(write.before) is True
        uses = [use for use in uses if use.place in before and is_cleared]
    if not uses:
        return None
    lines = ", ".join(str(line) for line in sorted({use.line for use in uses if use.path == write.path}))
    kinds = sorted({use.kind for use in uses})
    words = {"uses": lines or "in another file", "used_as": " and ".join(kinds)}
    return event_of(write, "AttrWrite", "host-state", "likely", None, **words)


def _is_increment(use: Use, write: Write) -> bool:
    """Return whether a use is only the old value in `group["step"] += 1`. The old value counts as an operand, because
    it may be a tensor."""
    is_count = write.augmented and type(write.value) is Unknown
    return is_count and use.kind == "operand" and use.place == (write.key, write.path, write.span[0])


def rebound(write: Write, flow: StateFlow, log: StateLog, is_held: Callable[[str], bool]) -> Event | None:
    """Return the event for an attribute that gets a new tensor in each step. The graph keeps the address of the old
    tensor."""
    if _is_output(write, log, is_held):
        return None
    if (write.keyed and not write.reads_self) or write.lazy or write.borrowed or write.rare or write.settled:
        return None
    if _replaces_object(write) and write.place in log.read_before:
        return event_of(write, "AttrWrite", "rebound", "likely", "error")
    tensor, certain = one_or_several(write.value)
    if tensor is None or tensor.where == "host" or not certain:
        return None
    # The attribute may get the tensor of another attribute. If that attribute also gets another tensor, the two may be
    # swapped.
    if not tensor.fresh and (tensor.attr in (None, write.key) or tensor.attr not in flow.moved):
        return None
    before, _ = one_or_several(write.before) if write.before is not None else (None, False)
    read_first = write.reads_self or write.place in log.read_before
    if write.resets is not False and write.key in log.readers and write.key not in log.read_old:
        return None  # each step reads only what it has set
    # If an attribute is None between steps, a step usually sets and resets it, or keeps an activation for other code.
    # If a step first reads such an attribute of its own object, another step has put the value there.
    empty_before = write.before is not None and may_be_none(write.before) is not False
    left_by_another = write.reads_self or (read_first and write.lasting)
    is_kept = empty_before and (left_by_another or not read_first)
    if before is None and not (write.reads_self or is_kept):
        return None
    confidence: Confidence = "possible" if empty_before and not left_by_another else _confidence(write.value)
    is_swapped = tensor.attr not in (None, write.key) and (tensor.attr, write.key) in flow.taken
    how = "swapped" if is_swapped else "rebound"
    return event_of(write, "AttrWrite", how, confidence, "error" if read_first else "warning")


def _is_output(write: Write, log: StateLog, is_held: Callable[[str], bool]) -> bool:
    """Return whether a graph makes the new tensor, and only code around the graph reads it."""
    reads = log.readers.get(write.key)
    if not reads or write.reads_self or not is_held(write.ref):
        return False
    return not any(one.captured or is_held(one.ref) for one in reads)


def event_of(
    write: Write, kind: str, how: str, confidence: Confidence, level: Level | None = None, **words: str
) -> Event:
    return Event(
        kind,  # type: ignore[arg-type]
        how,
        write.span,
        confidence,
        write.guard,
        level,
        {"expr": write.text, "value": describe(write.value), "attribute": write.text, **words},
        compile_test=write.compile_test,
    )


def _confidence(value: Value) -> Confidence:
    tensor, certain = as_tensor(value)
    if tensor is not None:
        return "likely" if certain and tensor.certain else "possible"
    return "likely" if type(value) is not Unknown or value.device else "possible"


def one_or_several(value: Value) -> tuple[Tensor | None, bool]:
    """Return the tensor of a value, and whether the value certainly is a tensor. The tensor is the value itself, or the
    common element of a list of tensors."""
    return as_tensor(value.elem if type(value) is SequenceValue and value.kind in ("list", "tuple") else value)


def _replaces_object(write: Write) -> bool:
    """Return whether another object of the same class replaces an object that contains device tensors."""
    old, new = write.before, write.value
    if type(old) is not Instance or type(new) is not Instance or old.ref != new.ref or old.given is None:
        return False
    held = [as_tensor(value) for value in (*old.given.positional, *(value for _, value in old.given.keywords))]
    return any(tensor is not None and tensor.where == "device" and certain for tensor, certain in held)


def is_number(value: Value) -> bool:
    """Return whether a value is a number, perhaps None, or a list of numbers."""
    if type(value) is SequenceValue:
        return is_number(value.elem)
    if type(value) is Union:
        return all(type(option) in (Number, NoneValue) for option in value.options)
    return type(value) is Number or (type(value) is Unknown and value.state != () and not value.device)
