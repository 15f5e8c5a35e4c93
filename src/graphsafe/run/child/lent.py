"""Follows tensors in a pool that one graph makes and a later graph of the pool reads.

If the program frees such a tensor, a capture after that gives its memory to another graph of the pool. Replays of that
graph then overwrite data that the reading graph needs. This does no harm as long as a graph that makes the tensor is
replayed in between. So the order of the replays decides (`parent/lost_memory.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphsafe.run.child.names import Name
from graphsafe.run.child.outside import Memory
from graphsafe.run.child.records import GraphRecord, Lent, Use
from graphsafe.run.child.sight import Contents, Sight


class Lending:
    """The tensors that graphs of this process read from other graphs of their pool. Call the methods with torch
    functions disabled."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._lent: list[Lent] = []
        self._records: list[GraphRecord] = []

    def lost(self) -> list[Lent]:
        """Return the lost tensors whose memory may be given to a capture that begins now."""
        found = [one for one in self._lent if not self._is_alive(one)]
        for one in found:
            one.use.memory.look(self._sight.maker)
        return found

    def captured(self, record: GraphRecord, contents: Contents, names: Mapping[int, Sequence[Name]]) -> None:
        """Begin to follow the tensors that a graph reads from other graphs, and record which lost memory it uses."""
        for one in record.may_take:
            if one.pool == contents.pool and contents.takes(one.place):
                one.takers.append(record.number)
        record.may_take = []
        for touch, graphs in contents.borrowed:
            number = int(touch.storage._cdata)
            for known in self._lent:
                if known.use.memory.number == number and self._is_alive(known):
                    known.makers.append(record.number)
            makers = [one.number for one in self._records if one.graph is not None and one.graph() in graphs]
            memory = Memory(
                touch.storage, names.get(number, ()), touch.text, touch.made, lambda _: None, self._sight.is_held
            )
            place = memory.address, memory.address + memory.bytes
            lent = Lent(Use(memory, touch.access, False), contents.pool, place, makers)
            self._lent.append(lent)
            record.lent.append(lent)
        self._records.append(record)

    def _is_alive(self, lent: Lent) -> bool:
        memory = lent.use.memory
        return memory.is_there and self._sight.is_held(memory.number)
