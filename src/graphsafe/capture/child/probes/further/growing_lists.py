"""Finds lists on the host that grow by the same number of elements in each step, such as the tokens of a sequence or a
history of losses. Python's decisions may depend on their length."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from graphsafe.capture.child.state import ReachableState, held_at

_SMALL = (bool, int, float, str)
"Only lists of such values are lengthened, because a copy of the last element is then a legal element."


_MOST_AT_ONCE = 8
"""The largest number of elements that a step may add to a list. If a step adds more elements, the list would take too
much memory when it is lengthened as if a million steps had run."""


class GrowingLists:
    """The lists that grow."""

    def __init__(self, reach: ReachableState, number: int) -> None:
        """`reach` is the state after step `number`."""
        self._first, self._number = reach.lengths, number
        self._moves: dict[str, tuple[tuple[Any, Any], int, int]] = {}
        "Path of a list -> its container and key, its length, and the number of elements that a step adds."

    def look(self, reach: ReachableState, number: int, paths: Collection[str]) -> None:
        """Find the lists among `paths` that have grown since they were read. `reach` is the state after step
        `number`."""
        for path, found in reach.sized.items():
            if type(found) is not list:
                continue
            length = len(found)
            by, rest = divmod(length - self._first.get(path, length), number - self._number)
            if path in paths and 0 < by <= _MOST_AT_ONCE and not rest and {*map(type, found[-by:])} <= {*_SMALL}:
                self._moves[path] = reach.holders[path], length, by

    def __bool__(self) -> bool:
        return bool(self._moves)

    def set_ahead(self, steps: int) -> None:
        """Lengthen each list as if `steps` more steps had run. The lists have to be as they were when `look` ran."""
        for owner, _, by in self._moves.values():
            found = held_at(*owner)
            found.extend(found[-by:] * steps)

    def are_ahead(self, steps: int) -> bool:
        """Return whether each list has the length that it should have after `steps` more steps."""
        return all(_length(held_at(*owner)) == length + steps * by for owner, length, by in self._moves.values())


def _length(value: object) -> int:
    return len(value) if type(value) is list else -1
