"""Finds faults that eager operations between replays show on the simulated device.

The faults are outdated tensors, tensors that grow, and inputs for which another graph was captured.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.device.sim.graphs import CUDAGraph
from graphsafe.capture.device.sim.tags import Tag, tag_of, tag_of_storage, tags_of
from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import Name, is_inside, place_of
from graphsafe.run.facts import Calls, Growth, OutdatedTensor

_COPIES = frozenset({"aten::copy_", "aten::clone", "aten::_to_copy"})
_MOST_SOURCES = 16
"At most this many source tensors are followed for one tensor."


@dataclass(eq=False, slots=True)
class _Outdated:
    """A tensor that a graph reads and that was computed from other tensors, its sources."""

    storage: int
    what: str
    sources: Mapping[int, str]
    "The id of a source's tag -> the source's name."
    again: bool = False
    "Whether the program has written the tensor again after the capture."
    source: str = ""
    "The name of the source that was written."
    frames: Calls = ()
    "The calls that led to the write of the source."
    replays: int = 0
    "The number of replays since the write."


class Derived:
    """Finds outdated tensors: they were computed before a capture, and replays still use them after their sources were
    written.

    An example is a merged weight. A tensor is reported under three conditions: a graph only reads it, it was computed
    only from other attributes of its object (its sources), and the graph uses none of these sources. Copies and tensors
    that are updated in place are left out, because they are meant to keep old values. But a packed weight
    (`w.t().contiguous()`) is reported. A tensor that the program computes again after the capture is also left out,
    because the program itself decides when to refresh it.
    """

    def __init__(self) -> None:
        self._sources: weakref.WeakKeyDictionary[Tag, frozenset[weakref.ref[Tag]]] = weakref.WeakKeyDictionary()
        self._watched: weakref.WeakKeyDictionary[Tag, list[_Outdated]] = weakref.WeakKeyDictionary()
        self._all: list[_Outdated] = []

    def ran(
        self, op: str, inputs: Sequence[torch.Tensor], written: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        """Record an operation that ran eagerly."""
        read, wrote = set(tags_of(inputs)), set(tags_of(written))
        for tag in wrote if self._all else ():
            self._wrote(tag)
        is_updated = bool(wrote) and op.endswith("_") and op not in _COPIES
        has_no_values = op.endswith("_like") or op.startswith("aten::new_")
        read_from = () if is_updated or has_no_values else read - wrote
        is_copy = op in _COPIES and not any(map(_is_rearranged, inputs))
        sources = self._origins(read_from, copied=is_copy) - set(map(weakref.ref, wrote))
        for tag in wrote | (set(tags_of(outputs)) - read):
            self._sources.pop(tag, None)
            if sources:
                self._sources[tag] = sources

    def _origins(self, tags: Iterable[Tag], *, copied: bool) -> frozenset[weakref.ref[Tag]]:
        found: set[weakref.ref[Tag]] = set()
        for tag in tags:
            known = self._sources.get(tag)
            found.update(known if known is not None else () if copied else (weakref.ref(tag),))
        return frozenset(found if len(found) <= _MOST_SOURCES else ())

    def _wrote(self, tag: Tag) -> None:
        for one in self._watched.get(tag, ()):
            source = one.sources.get(id(tag))
            if source is None:
                one.again = True
            elif not one.frames:
                one.frames, one.source = user_frames()[0], source

    def captured(
        self, reads: Sequence[torch.UntypedStorage], used: Iterable[int], names: Mapping[int, Sequence[Name]]
    ) -> None:
        """Watch the tensors that a graph reads and that were computed from other tensors. `used` are all storages that
        the graph uses."""
        tags = {storage: tag for storage in reads if (tag := tag_of_storage(storage)) is not None}
        if not any(self._sources.get(tag) for tag in tags.values()):
            return
        by_tag: dict[Tag, tuple[int, Sequence[Name]]] = {}
        for number, known in names.items():
            tensor = known[0].tensor() if known else None
            tag = None if tensor is None else tag_of(tensor)
            if tag is not None:
                by_tag[tag] = number, known
        using = set(used)
        for storage, tag in tags.items():
            sources = self._sources.get(tag, frozenset())
            others = [one for source in sources if (one := source()) is not None]
            number, own = by_tag.get(tag, (0, ()))
            beside = [(one, *by_tag.get(one, (0, ()))) for one in others]
            texts = {
                id(one): text for one, other, known in beside if other not in using and (text := _beside(known, own))
            }
            if others and len(texts) == len(sources):
                found = _Outdated(int(storage._cdata), own[0].text, texts)
                self._all.append(found)
                for one in (tag, *others):
                    self._watched.setdefault(one, []).append(found)

    def replayed(self, uses: Mapping[int, Access]) -> None:
        for one in self._all:
            if one.frames and not one.again and uses.get(one.storage) == "read":
                one.replays += 1

    def facts(self) -> tuple[OutdatedTensor, ...]:
        found = [one for one in self._all if one.replays and not one.again]
        return tuple(OutdatedTensor(one.what, one.source, one.frames, one.replays) for one in found)


def _is_rearranged(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a view of all elements of its memory in another order, such as a transposed weight."""
    return not tensor.is_contiguous() and tensor.nbytes == tensor.untyped_storage().nbytes()


def _beside(names: Sequence[Name], others: Sequence[Name]) -> str | None:
    """Return the name under which a tensor is an attribute of the same object as one of `others`, or None."""
    places = {place for one in others if (place := _place(one)) is not None}
    return next((one.text for one in names if _place(one) in places), None)


def _place(name: Name) -> tuple[object, ...] | None:
    """Return a key of the object that holds a tensor as an attribute, or None if no object does."""
    if name.root is None or not name.way or name.way[-1][0] not in ("attribute", "parameter"):
        return None
    return id(name.root()), *name.way[:-1]


_ENOUGH = 16
"A tensor counts as growing if it is longer at each of this many replays in a row than at the previous replay."


class Growing:
    """Finds tensors that the program makes longer and longer between replays: `self.path = torch.cat([self.path, x])`.

    Each time, the whole tensor is allocated and copied again.
    """

    def __init__(self) -> None:
        self._replays = 0
        self._growth: weakref.WeakKeyDictionary[Tag, tuple[int, int, int]] = weakref.WeakKeyDictionary()
        """Tensor -> how often it has grown, the number of replays when it last grew, and the number of bytes that were
        copied in all."""
        self._found: dict[CallSite, Growth] = {}

    def replayed(self) -> None:
        self._replays += 1

    def ran(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Record an operation that ran eagerly."""
        if not self._replays or len(outputs) != 1 or (tag := tag_of(outputs[0])) is None:
            return
        for one in inputs:
            before = tag_of(one)
            if before is None or before is tag or not _is_longer(outputs[0], one):
                continue
            times, replays, copied = self._growth.get(before, (0, 0, 0))
            times, copied = times + (replays < self._replays), copied + one.nbytes
            self._growth[tag] = times, self._replays, copied
            frames, span = user_frames() if times >= _ENOUGH else ((), None)
            if frames:
                self._found[frames[-1]] = Growth(frames, span, times, copied)
            return

    def facts(self) -> tuple[Growth, ...]:
        return tuple(self._found.values())


def _is_longer(now: torch.Tensor, before: torch.Tensor) -> bool:
    """Return whether two tensors differ in size in exactly one dimension, in which the first is longer."""
    if now.dim() != before.dim() or now.dtype != before.dtype or before.numel() >= now.numel():
        return False
    return sum(one != other for one, other in zip(now.shape, before.shape, strict=True)) == 1


_MOST_COPIES = 64
"If this many copies or more are made between two replays, the input of the second replay counts as unknown."


@dataclass(eq=False, slots=True)
class _Inputs:
    """The memory outside its pool that a graph reads."""

    places: frozenset[range]
    passed_over: int = 0
    "The number of times that another graph was given an input of this graph's size."


class Asked:
    """Counts for each graph how often an input of its size was given to another graph that has the same operations and
    was captured at the same line.

    An example is `x[:3].copy_(batch)`, followed by a replay of the graph for four rows although there is a graph for
    three rows. An input has a graph's size if exactly one copy was made since the last replay, and if it filled exactly
    the memory that the graph reads.
    """

    def __init__(self) -> None:
        self._inputs: weakref.WeakKeyDictionary[CUDAGraph, _Inputs] = weakref.WeakKeyDictionary()
        self._given: list[range] = []
        "The memory that copies have filled since the last replay."

    def captured(self, graph: CUDAGraph, inputs: Iterable[torch.Tensor]) -> Callable[[], int]:
        """Record the memory outside its pool that a graph reads.

        Return a function that returns how often the graph was passed over.
        """
        found = self._inputs[graph] = _Inputs(
            frozenset(place for one in inputs if (place := place_of(one)) is not None)
        )
        return lambda: found.passed_over

    def ran(self, name: str, args: Sequence[Any]) -> None:
        if name == "aten::copy_" and self._inputs and len(self._given) < _MOST_COPIES:
            place = place_of(args[0])
            self._given += [] if place is None else [place]

    def replaying(self, graph: CUDAGraph) -> None:
        """For each other graph that has exactly the input's size, count that it was passed over."""
        given, self._given = self._given, []
        if not 0 < len(given) < _MOST_COPIES:
            return
        own = self._inputs[graph].places if graph in self._inputs else frozenset()
        for other, inputs in list(self._inputs.items()):
            if _asked(given, inputs.places - own, own) and _kind(other) == _kind(graph):
                inputs.passed_over += 1


def _asked(given: Sequence[range], wanted: Iterable[range], own: Iterable[range]) -> bool:
    """Return whether a copy filled one of the memory ranges `wanted`, and no other copy wrote to the input that
    contains this range."""
    for place in wanted:
        holders = [one for one in own if is_inside(place, one)]
        filled = [one for one in given if any(is_inside(one, holder) for holder in holders)]
        if filled == [place]:
            return True
    return False


def _kind(graph: CUDAGraph) -> tuple[Any, ...]:
    """Return the properties that graphs for several sizes share: the line of the capture, and the operations."""
    session = graph.captured_in
    return None if session is None else session.frames[-1:], [node.op for node in graph.nodes]
