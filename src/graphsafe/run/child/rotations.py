"""Finds buffers whose names the program exchanges: `self.front, self.back = self.back, self.front`.

If captured code exchanges the names, Python does so once, at the capture, and each replay uses the buffers of the
capture. So of two replays in a row, the second begins with the same values as the first, unless the program writes to
the buffers in between. If the program exchanges the names between replays, a replay still reads and writes the buffers
that had the names at the capture. In both cases a program is correct if it has a graph for each order of the buffers
and replays these graphs in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from graphsafe.report.ledger.model import Access
from graphsafe.run.child.names import Name, storage_number

When = Literal["captured", "replayed"]


class Rotation:
    """The names under which the program reaches the memory of a graph, if it swaps these names."""

    def __init__(
        self,
        before: Mapping[int, Sequence[Name]] | None = None,
        after: Mapping[int, Sequence[Name]] | None = None,
        used: Mapping[int, Access] | None = None,
    ) -> None:
        """Find the names.

        `before` and `after` map the number of each storage to the names of its tensors, before and after the capture.
        `used` maps the number of each storage that the graph uses outside its pool to the kind of access.
        """
        self._used = used or {}
        old, new = (_numbers(names or {}) for names in (before, after))
        moved = {text for text, number in new.items() if number in self._used and old.get(text, number) != number}
        places = {new[text] for text in moved}
        known = {name.text: name for names in (after or {}).values() for name in names}
        self.names = [known[text] for text in sorted(moved) if old[text] in places]
        self._last: tuple[tuple[int | None, int | None], ...] | None = None
        # An exchange of buffers that the graph only reads, or only writes, may do no harm: the graph may compute the
        # mean of the buffers.
        roles = set(self._used.values())
        self._captured = {text: number for text, number in new.items() if number in self._used and len(roles) > 1}
        self._known = known if self._captured else {}
        self.when: When | None = None
        """Whether the program exchanges the names in captured code or between replays. It is None until a replay has
        used an old order."""

    def replaying(self, is_again: bool) -> bool:
        """Return whether this is the first replay that is known to use the memory of an old order.

        `is_again` says whether the previous replay was a replay of the same graph.
        """
        if self.when is not None:
            return False
        if self.names:
            now = tuple(map(_state, self.names))
            if is_again and now == self._last and all(None not in one for one in now):
                self.when = "captured"
            self._last = now
        elif is_again:
            self.names = self._exchanged()
            self.when = "replayed" if self.names else None
        return self.when is not None

    def _exchanged(self) -> list[Name]:
        """Return the names that have exchanged their memory since the capture. Return no names if the graph uses the
        exchanged buffers in the same way, for example if it only reads them."""
        numbers = ((text, number, self._known[text].now()) for text, number in self._captured.items())
        present = {text: (number, storage_number(now)) for text, number, now in numbers if now is not None}
        moved = {text: pair for text, pair in present.items() if pair[0] != pair[1] and pair[1] in self._used}
        then, now = ({pair[at] for pair in moved.values()} for at in (0, 1))
        swaps_roles = any(self._used[old] != self._used.get(new or 0) for old, new in moved.values())
        return [self._known[text] for text in moved] if then == now and swaps_roles else []


def _numbers(names: Mapping[int, Sequence[Name]]) -> dict[str, int]:
    """Return a map from the name of each attribute or element to the number of its storage."""
    return {one.text: number for number, same in names.items() for one in same if one.way}


def _state(name: Name) -> tuple[int | None, int | None]:
    """Return the storage that a name refers to now, and the number of eager writes to it. Each is None if unknown."""
    tensor = name.now()
    if tensor is None:
        return None, None
    return storage_number(tensor), None if tensor.is_inference() else tensor._version
