"""Finds state that each step initialises before using it: `self.count = 0` at the top of a step, then `self.count +=
1`.

Such state only passes a value from one line of a step to another. It passes nothing to the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphsafe.scan.domain.record import COMPILED, RETURNED, TARGET, Record
from graphsafe.scan.domain.state_log import Place, Read, StateLog, Use, Write
from graphsafe.scan.domain.summary import Included, Item, RootSite, Summary
from graphsafe.scan.roots.hot_roots import FORWARD

FROM_FACTORY = ""
"The name of a root that a factory assembles. Such a root may be a closure."
_NOTHING: frozenset[str] = frozenset()


class FreshStarts:
    """Follows the lines of one root in their order, and records the writes that only continue state of the same
    step."""

    def __init__(self, state: StateLog, root: str, state_items: Callable[[Summary], Sequence[Item]]) -> None:
        self._state = state
        self._root = root
        self._items = state_items
        self._read: set[str] = set()
        self._gains: dict[int, frozenset[str]] = {}
        "Id of a summary -> the state that the function always initialises."
        self._entered: dict[int, list[frozenset[str]]] = {}
        """Id of a summary -> for each time that the function was followed, the state that the step had initialised
        before the call."""

    def follow(self, summary: Summary, fresh: frozenset[str] = _NOTHING) -> frozenset[str]:
        """Follow a function. `fresh` is the state that the step has initialised before the call. Return the state that
        is initialised after the call."""
        before = self._entered.setdefault(id(summary), [])
        if any(known <= fresh for known in before):
            return fresh | (self._gains[id(summary)] - self._read)
        before.append(fresh)
        # A capture runs once, so a replay does not set again the state that was set before the capture.
        items = self._items(summary)
        captures = any(type(item) is RootSite for item in items)
        now = _NOTHING if captures else fresh
        for item in items:
            if type(item) is Included:
                after = self.follow(item.summary, now)
                now = after if item.sure else now
            elif (type(item) is Read and not item.own) or type(item) is Use:
                self._read.add(item.key)
                if item.key not in now:
                    self._state.read_old.add(item.key)
            elif type(item) is Write and not item.between:
                if item.resets and item.key not in self._read:
                    now |= {item.key}
                elif item.reads_self:
                    found = self._state.continued if item.continues or item.key in now else self._state.carried
                    found.setdefault(item.place, set()).add(self._root)
        gained = _NOTHING if captures else now - fresh
        self._gains.setdefault(id(summary), gained)
        return fresh | gained


def places(record: Record) -> set[Place]:
    """Return the places of writes that only continue state which the same step has initialised."""
    state = record.state
    return {
        place
        for place, roots in state.continued.items()
        if all(_is_part(record, root, roots) for root in state.carried.get(place, ()))
    }


def _is_part(record: Record, root: str, steps: set[str]) -> bool:
    """Return whether a root is the `forward` of a module that runs as part of one of these steps."""
    if record.roots.get(root) != FORWARD:
        return False
    is_called = any(edge.caller != root and not edge.guarded for edge in record.edges.get(root, ()))
    return is_called and any(step != root and _is_whole(record, step) for step in steps)


def _is_whole(record: Record, root: str) -> bool:
    why = record.roots.get(root, "")
    return root == FROM_FACTORY or why == FORWARD or why.startswith((TARGET, RETURNED, COMPILED))
