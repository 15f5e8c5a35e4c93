"""Follows the memory outside their pools that graphs use, and the tensors that they read from other graphs of their
pool. Finds out when such memory is freed or moved."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence

from graphsafe.capture.shared.frames import user_frames
from graphsafe.run.child.names import Name
from graphsafe.run.child.outside import Memory
from graphsafe.run.child.records import GraphRecord, Lent, Use
from graphsafe.run.child.sight import Contents, Sight


class Lending:
    """The tensors in a pool that one graph makes and a later graph of the pool reads.

    If the program frees such a tensor, a later capture may give its memory to another graph of the pool. Replays of
    that graph then overwrite data that the reading graph needs. This does no harm as long as a graph that makes the
    tensor is replayed in between. So `parent/lost_memory.py` looks at the order of the replays.
    """

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
            memory = one.use.memory
            if one.pool == contents.pool and contents.takes(range(memory.address, memory.address + memory.bytes)):
                one.takers.append(record.number)
        record.may_take = []
        for touch, graphs in contents.borrowed:
            number = touch.number
            for known in self._lent:
                if known.use.memory.number == number and self._is_alive(known):
                    known.makers.append(record.number)
            makers = [one.number for one in self._records if one.graph is not None and one.graph() in graphs]
            memory = Memory(
                touch.storage, names.get(number, ()), touch.text, touch.made, lambda _: None, self._sight.is_held
            )
            lent = Lent(Use(memory, touch.access, False), contents.pool, makers)
            self._lent.append(lent)
            record.lent.append(lent)
        self._records.append(record)

    def _is_alive(self, lent: Lent) -> bool:
        memory = lent.use.memory
        return memory.is_there and self._sight.is_held(memory.number)


class Memories:
    """The memory that the graphs use."""

    def __init__(self, sight: Sight, replays: Callable[[int], int], tell: Callable[[bool], None]) -> None:
        """Start with no memory to watch.

        `replays` returns how often a graph was replayed. `tell` is called when memory was lost. Its argument is True if
        the next replay may end the process.
        """
        self._sight = sight
        self._replays = replays
        self._tell = tell
        self.lending = Lending(sight)
        self._known: dict[int, Memory] = {}
        self._users: weakref.WeakKeyDictionary[Memory, list[tuple[GraphRecord, Use]]] = weakref.WeakKeyDictionary()

    def __bool__(self) -> bool:
        return bool(self._known)

    def captured(
        self, record: GraphRecord, contents: Contents, names: Mapping[int, Sequence[Name]], still: Iterable[int]
    ) -> None:
        """Begin to watch the memory that a graph uses.

        `names` are the names of the graph's tensors by storage, including tensors that were freed during the capture.
        `still` are the storages that have a name now.
        """
        self.lending.captured(record, contents, names)
        if contents.casts is not None:
            contents.casts.replays = functools.partial(self._replays, record.number)
        present = set(still)
        for touch in contents.touches:
            number = touch.number
            known = self._known.get(number)
            if known is None or known.status != "alive" or not known.is_in_place:
                own = names.get(number, ())
                known = Memory(touch.storage, own, touch.text, touch.made, self._suspected, self._sight.is_held)
                self._known[number] = known
                known.instead = None if number in present else record.key.rebinding(own)
            use = Use(known, touch.access, touch.certain, contents.let_go.get(known.number))
            record.uses.append(use)
            self._users.setdefault(known, []).append((record, use))

    def text(self, number: int) -> str | None:
        """Return the name of a storage, or None if no graph uses it."""
        memory = self._known.get(number)
        return None if memory is None else memory.text

    def leaving(self, number: int) -> None:
        """Record that the running line is about to move a tensor to another storage."""
        memory = self._known.get(number)
        if memory is not None and memory.status == "alive":
            memory.leaving(user_frames()[0])
            self._suspected(memory)

    def losing(self, number: int) -> None:
        """Record that the running line frees the memory of a storage, as `resize_` does."""
        self.leaving(number)
        memory = self._known.get(number)
        if memory is not None and memory.status == "alive":
            memory.status = "moved"
            self._tell(False)

    def look(self, record: GraphRecord) -> None:
        """Update the status of each memory that a graph uses."""
        record.suspect = False
        for use in record.uses:
            memory = use.memory
            if memory.status == "alive":
                memory.look(self._sight.maker)
                if memory.status == "alive":
                    use.lost_after = None
                    continue
                self._suspected(memory)
                record.suspect = False
                self._tell(True)
        seeking = [use.memory for use in record.uses if use.memory.seeks_heir]
        # Search all tensors of the process only once: a reload of weights may free hundreds of storages at the same
        # time.
        owners = self._sight.owners([memory.address for memory in seeking]) if seeking else {}
        for memory in seeking:
            memory.found_heir(owners.get(memory.address))

    def _suspected(self, memory: Memory) -> None:
        for record, use in self._users.get(memory, ()):
            record.suspect = True
            if use.lost_after is None:
                use.lost_after = self._replays(record.number)
