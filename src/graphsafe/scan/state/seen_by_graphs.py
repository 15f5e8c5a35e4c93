"""Finds changes of state outside a graph, if the captured code has read the state. Replays still use the captured
values.

The abstract values show to which object a line of any class or file refers. A graph keeps the old value even if the
change is rare, and wherever the new value comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from graphsafe.scan.domain.events import Event
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import RATES
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.record import Place
from graphsafe.scan.domain.state_log import SELDOM, Read, StateLog, Use, Write
from graphsafe.scan.domain.values import UNSET, Array, Dict, Instance, NoneValue, Number, RuntimeObject, Unknown, Value
from graphsafe.scan.state import module_modes
from graphsafe.scan.state.across_steps import event_of, is_number, one_or_several, placed

_OF_LAYERS = frozenset(("p", "momentum", "eps", "dropout", "negative_slope", "alpha", "lambd", "threshold"))
"Numbers that the modules of PyTorch read in each call."


class Graphs(Protocol):
    """The functions that graphs contain, and the functions around the graphs."""

    def is_held(self, ref: str, line: int | None = None) -> bool: ...
    def is_around(self, ref: str, line: int) -> bool: ...
    def runs_first_in_capture(self, ref: str) -> bool: ...
    def captures_after(self, ref: str, line: int) -> bool: ...
    def recaptures(self, ref: str, line: int | None = None) -> bool: ...
    def is_set_for_captures(self, key: str) -> bool: ...
    def is_read_around(self, key: str) -> bool: ...


def events(log: StateLog, graphs: Graphs) -> Iterator[tuple[Place, Event]]:
    """Yield the changes that a graph does not see."""
    uses: dict[str, list[Use]] = {}
    for use in log.uses.values():
        uses.setdefault(use.key, []).append(use)
    for writes in (*log.writes.values(), *log.between.values()):
        # A graph keeps the old value even if few steps change it.
        for write in (replace(write, guard=None) if write.guard == SELDOM else write for write in writes):
            if _begins_anew(write, log) and graphs.runs_first_in_capture(write.ref):
                yield placed(write, event_of(write, "AttrWrite", "begun-in-capture", "likely"))
                break
            if _counts(write) and graphs.is_held(write.ref, write.span[0]) and graphs.is_read_around(write.key):
                yield placed(write, event_of(write, "AttrWrite", "counted", "likely"))
                break
            # A batch that pads itself, for example, is made by the step. A graph uses the object of its capture.
            is_of_step = write.text.startswith("self.") and write.key.rpartition(".")[0] in log.made
            if _outlasts_steps(write) and not is_of_step and graphs.is_around(write.ref, write.span[0]):
                event = (
                    _rate(write, log, graphs)
                    or _mode(write, log, graphs)
                    or _number_of_layer(write, log, graphs)
                    or _number(write, uses.get(write.key, ()), log, graphs)
                    or _tensor(write, log, graphs)
                )
                if event is not None:
                    yield placed(write, event)
                    break


def _begins_anew(write: Write, log: StateLog) -> bool:
    """Return whether the first step creates a tensor that all steps modify. If the first step is captured, each replay
    creates the tensor anew and so resets it."""
    tensor, certain = one_or_several(write.value)
    made = tensor is not None and tensor.fresh and tensor.where != "host" and certain
    return made and write.lazy and write.alone and not (write.keyed or write.guard) and write.key in log.inputs


def _counts(write: Write) -> bool:
    """Return whether a write computes an object's number from the old number in every step."""
    unusual = write.lazy or write.borrowed or write.settled or write.rare or write.keyed or write.between
    return write.reads_self and is_number(write.value) and not (unusual or write.guard)


def _outlasts_steps(write: Write) -> bool:
    if write.lazy or write.borrowed or write.settled or write.guard or (write.rare and write.grows):
        return False
    if write.keyed:
        # A new entry in a table, such as one for a new size, is not a change. Replacing an entry that the constructor
        # made is a change, and so is a moving average that makes a new tensor.
        tensor = one_or_several(write.value)[0]
        is_average = tensor is not None and tensor.fresh
        return write.lasting and write.replaces and (is_average or not write.reads_self)
    # A method that gives an attribute its first value is probably called before the capture.
    return write.lasting and not (write.between and (write.before is None or type(write.before) is NoneValue))


def _is_held(read: Read, graphs: Graphs) -> bool:
    """Return whether captured code reads the value."""
    return read.captured or graphs.is_held(read.ref)


def _is_captured_later(write: Write, graphs: Graphs) -> bool:
    """Return whether a capture comes after the write. The graph of this capture then sees the new value."""
    return graphs.captures_after(write.ref, write.span[0]) or graphs.recaptures(write.ref, write.span[0])


def _rate(write: Write, log: StateLog, graphs: Graphs) -> Event | None:
    """Return the event for a changed option of an optimizer, if all steps of optimizers are captured."""
    reads = log.readers.get(write.key, ()) if write.key == RATES else ()
    if not reads or not all(_is_held(read, graphs) for read in reads) or _is_captured_later(write, graphs):
        return None
    return event_of(write, "AttrWrite", "rate-changed", "likely")


def _mode(write: Write, log: StateLog, graphs: Graphs) -> Event | None:
    """Return the event for a line that switches a module to evaluation, or that turns its gradients off. There is an
    event only if captured code trains the module and no other line switches it back."""
    if not write.key.endswith(module_modes.ENDS) or const_of(write.value) is not False:
        return None
    switched = (one for place in (*log.writes.values(), *log.between.values()) for one in place)
    if any(one.key == write.key and const_of(one.value) is not False for one in switched):
        return None
    held = any(_is_held(read, graphs) for read in log.readers.get(write.key, ()))
    if not held or _is_captured_later(write, graphs):
        return None
    return event_of(write, "AttrWrite", "number-changed", "likely")


def _number_of_layer(write: Write, log: StateLog, graphs: Graphs) -> Event | None:
    """Return the event for a changed number of a module of PyTorch, if captured code has called the module:
    `self.drop.p = rate`."""
    is_read = type(write.before) is RuntimeObject and write.text.rpartition(".")[2] in _OF_LAYERS
    if not is_read or type(write.value) not in (Number, Unknown) or graphs.recaptures(write.ref, write.span[0]):
        return None
    held = any(_is_held(read, graphs) for read in log.readers.get(write.key, ()))
    return event_of(write, "AttrWrite", "number-changed", "likely") if held else None


def _number(write: Write, uses: list[Use] | tuple[()], log: StateLog, graphs: Graphs) -> Event | None:
    """Return the event for a changed number, if captured code has computed with the old number."""
    value = write.value
    # An unknown value that replaces a number counts as a number, unless it may hold device tensors. A NumPy value that
    # replaces a number is a scalar.
    is_open = type(value) is Array or (type(value) is Unknown and not value.device)
    is_alike = is_open and write.before is not None and is_number(write.before)
    if not (is_number(value) or is_alike) or graphs.is_set_for_captures(write.key):
        return None
    const = const_of(write.value)
    if const is not UNSET and (write.before is None or const == const_of(write.before)):
        return None
    # There may be one graph for each branch. A number that selects the branch then also selects the graph. This is
    # assumed if code around the graphs reads the number.
    reads = log.readers.get(write.key, ())
    chooses = any(not _is_held(read, graphs) for read in reads)
    seen = [use for use in uses if use.kind != "branch" or not chooses]
    # A constructor's captured block reads the numbers of its own new object. Such reads are not recorded as uses.
    in_constructor = any(read.captured and read.ref.endswith(".__init__") for read in reads)
    is_used = in_constructor or any(graphs.is_held(use.ref, use.line) for use in seen)
    if graphs.recaptures(write.ref, write.span[0]) or not is_used:
        return None
    # A function that takes the number as an argument may have been captured with another number.
    if not any(_is_held(read, graphs) or graphs.captures_after(read.ref, 0) for read in reads):
        return None
    return event_of(write, "AttrWrite", "number-changed", "likely")


def _is_other_tensor(write: Write) -> bool:
    """Return whether an unknown value replaces a tensor on the device. An element of a table, such as the input for a
    size, is excluded, because it may belong to the graph that is replayed next."""
    before, certain = one_or_several(write.before) if write.before is not None else (None, False)
    return (
        type(write.value) is Unknown and not write.chosen and before is not None and certain and before.where != "host"
    )


def _elements(write: Write) -> Value:
    """Return the common element of a dict, such as a batch, that replaces another dict. Return any other value as it
    is."""
    new = write.value
    return new.elem if type(new) is Dict and type(write.before) is Dict and not write.keyed else new


def _tensor(write: Write, log: StateLog, graphs: Graphs) -> Event | None:
    """Return the event for a replaced tensor, if captured code has read the old tensor."""
    given, certain = one_or_several(_elements(write))
    is_memory = write.text.endswith(".data") or write.replaces
    is_object = type(write.value) is Instance
    if given is None:
        if not is_memory and not _is_other_tensor(write):
            return None
    elif given.where == "host" or not certain or (given.attr is not None and not given.fresh):
        return None
    reads = log.readers.get(write.key, ())
    if not any(_is_held(read, graphs) for read in reads):
        return None
    is_new = (is_memory and not is_object) or (given is not None and given.fresh)
    # No key of a graph depends on weights or on a new tensor. An existing tensor may belong to the graph that is
    # replayed next.
    if graphs.captures_after(write.ref, write.span[0]) or (not is_new and graphs.recaptures(write.ref)):
        return None
    how = "input-rebound" if is_object else "weights-rebound" if write.text.endswith(")") else "rebound"
    return event_of(write, "AttrWrite", how, "likely", "error")
