"""Finds buffers whose names captured code exchanges: `self.front, self.back = self.back, self.front`.

Python exchanges the names once, at the capture, and each replay uses the buffers of the capture. So a second replay in
a row begins with the same values as the first one, unless the program writes to the buffers in between. A program is
correct if it has a graph for each order of the buffers and replays these graphs in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from graphsafe.run.child.names import Name, storage_number


class Rotation:
    """The names that exchanged their memory during one capture. Call the methods with torch functions disabled."""

    def __init__(
        self,
        before: Mapping[int, Sequence[Name]] | None = None,
        after: Mapping[int, Sequence[Name]] | None = None,
        used: Collection[int] = (),
    ) -> None:
        """Find the names.

        `before` and `after` are the names of tensors, by storage number, before and after the capture. `used` are the
        storages outside its pool that the graph uses.
        """
        old, new = (_numbers(names or {}) for names in (before, after))
        moved = {text for text, number in new.items() if number in used and old.get(text, number) != number}
        places = {new[text] for text in moved}
        known = {name.text: name for names in (after or {}).values() for name in names}
        self.names = [known[text] for text in sorted(moved) if old[text] in places]
        self._last: tuple[tuple[int | None, int | None], ...] | None = None
        self.is_repeated = False
        "Whether a replay began with the same values as the replay before it."

    def replaying(self, is_again: bool) -> bool:
        """Return whether this is the first replay that is known to repeat the previous one.

        `is_again` says whether the previous replay was a replay of the same graph.
        """
        if not self.names or self.is_repeated:
            return False
        now = tuple(map(_state, self.names))
        self.is_repeated = is_again and now == self._last and all(None not in one for one in now)
        self._last = now
        return self.is_repeated


def _numbers(names: Mapping[int, Sequence[Name]]) -> dict[str, int]:
    """Return the storage number of each attribute or element by its name."""
    return {one.text: number for number, same in names.items() for one in same if one.way}


def _state(name: Name) -> tuple[int | None, int | None]:
    """Return the storage that a name refers to now, and the number of eager writes to it. Each is None if unknown."""
    tensor = name.now()
    if tensor is None:
        return None, None
    return storage_number(tensor), None if tensor.is_inference() else tensor._version
