"""Finds weights that a graph reads although the object that held them now holds other weights.

Another container, such as a bank of adapters, a list of versions or a state dict, keeps the old weights alive. A weight
is reported if the object holds the old tensor at the graph's first replay, and another tensor with other values later.
Nothing is reported if the program may intend that the graph reads the old tensor. This is assumed if the program writes
to the old tensor after the capture, reads the new tensor eagerly, or captures a graph that reads the new tensor.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from graphsafe.capture.device.sim.tags import Tag, tag_of, tag_of_storage, tags_of
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import Name, place_of, storage_number
from graphsafe.run.child.sight import LetGo, Touch


class Weights:
    def __init__(self, maker: Callable[[torch.Tensor], CallSite | None]) -> None:
        """Watch no tensors yet. `maker` returns the line that made a tensor, if the line is known."""
        self._maker = maker
        self._graphs: weakref.WeakKeyDictionary[Any, list[LetGo]] = weakref.WeakKeyDictionary()
        self._read: weakref.WeakSet[Tag] = weakref.WeakSet()
        "Tensors that graphs read, or that eager operations have read since the first capture."
        self._captures = 0
        self._made: weakref.WeakKeyDictionary[Tag, int] = weakref.WeakKeyDictionary()
        "Tensor that an operation has made since the first capture -> the number of captures before this operation."
        self._if_read: weakref.WeakKeyDictionary[Tag, list[LetGo]] = weakref.WeakKeyDictionary()
        self._if_written: weakref.WeakKeyDictionary[Tag, list[LetGo]] = weakref.WeakKeyDictionary()

    def captured(self, graph: Any, touches: Iterable[Touch], names: Mapping[int, Sequence[Name]]) -> dict[int, LetGo]:
        """Begin to watch the tensors that a graph reads. Return them by the numbers of their storages."""
        found = {}
        self._captures += 1
        for touch in touches:
            tag, number = tag_of_storage(touch.storage), touch.number
            known = (one for one in names.get(number, ()) if one.root is not None and one.way)
            held = [one for one in known if one.way[-1][0] != "item"]
            if tag is not None:
                self._reads(tag)
                if held and touch.access == "read":
                    found[number] = LetGo(held, self._captures)
                    self._if_written.setdefault(tag, []).append(found[number])
        self._graphs[graph] = list(found.values())
        return found

    def ran(
        self, inputs: Sequence[torch.Tensor], written: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        if not self._graphs:
            return
        wrote = tags_of(written)
        for tag in wrote:
            for one in self._if_written.get(tag, ()):
                one.is_meant = True
        read = set(tags_of(inputs))
        self._made.update(dict.fromkeys(set(tags_of(outputs)).difference(read), self._captures))
        for tag in read.difference(wrote):
            self._reads(tag)

    def replaying(self, graph: Any) -> None:
        """Check, before a replay, the objects that held the tensors which the graph reads."""
        for one in self._graphs.get(graph, ()):
            one.replays += 1
            if one.is_meant or one.lost_after is not None:
                continue
            others = [other for name in one.names if (other := _instead(name)) is not None]
            if one.replays == 1 and others:
                one.is_meant = True
            elif others and len(others) == len(one.names):
                tags = tags_of(others)
                one.lost_after = one.replays - 1
                is_later = any(self._made.get(tag, 0) >= one.capture for tag in tags_of(others))
                one.instead = self._maker(others[0]) if is_later else None
                one.is_meant = any(tag in self._read for tag in tags) or not all(map(_differs, one.names, others))
                for tag in tags:
                    self._if_read.setdefault(tag, []).append(one)

    def _reads(self, tag: Tag) -> None:
        self._read.add(tag)
        for one in self._if_read.pop(tag, ()):
            one.is_meant = True


def _instead(name: Name) -> torch.Tensor | None:
    """Return the tensor that now has the name, if it is another device tensor of the same shape and type."""
    old, new = name.tensor(), name.now()
    if old is None or new is None or storage_number(new) == storage_number(old) or tag_of(new) is None:
        return None
    return new if (new.shape, new.dtype) == (old.shape, old.dtype) else None


def _differs(name: Name, new: torch.Tensor) -> bool:
    """Return whether a tensor's values differ from the values of the tensor that it has replaced."""
    old = name.tensor()
    places = [None if one is None else place_of(one) for one in (old, new)]
    contents = [ctypes.string_at(place.start, len(place)) for place in places if place is not None]
    return len(contents) == 2 and contents[0] != contents[1]
