"""Which children are on which GPU: side by side as far as its memory goes, and alone where times are measured."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

_SHARE = 0.8
"Of a device's memory, that children of several targets may take together."
_PATIENCE = 10.0
"Seconds after which nobody enters a device while one of its children waits to have it alone."
_LONGEST = 20.0
"Seconds after which it does not wait any longer: another target may take minutes to build on the host."
_OUT_OF_MEMORY = ("OutOfMemoryError", "out of memory", "ALLOC_FAILED")


@dataclass(eq=False, slots=True)
class Stay:
    """One child on a device, from before its start to its end."""

    device: str
    owner: object
    "Children of one owner are never kept apart from each other here, unless one is to be alone."
    bytes: int | None
    "What it is known to take; None before the target has been built once."
    total: int | None
    "The device's memory, where known."
    alone: bool = False
    "Nobody enters beside it."
    shared: bool = False
    "Whether others who were there go on while it measures."
    company: bool = False
    "Whether a child of another owner was there too, at any time."
    idle_since: float | None = None
    "Since when it waits to have the device alone, with nothing else left to do before."


class DeviceUse:
    """Shared by the threads of a command."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stays: list[Stay] = []
        self._next: dict[str, Stay] = {}
        "Who waits to be alone; nobody else enters before, or it would wait for ever."

    def enter(self, stay: Stay) -> bool:
        """Whether there is room now; to be asked again until there is."""
        with self._lock:
            others = self._others(stay)
            if not self._has_room(stay, others):
                return False
            if self._next.get(stay.device) is stay:
                del self._next[stay.device]
            for other in others:
                if other.owner is not stay.owner:
                    other.company = stay.company = True
            self._stays.append(stay)
            return True

    def have_alone(self, stay: Stay) -> bool:
        """Whether one that has entered may measure now; to be asked again until it may.

        It may when all others there wait for the same. So children of several targets make ready side by side, and
        measure one after another. Who has waited for long measures although others go on beside it (`shared`).
        """
        with self._lock:
            stay.idle_since = stay.idle_since or time.monotonic()
            others = self._others(stay)
            if any(other.alone for other in others):
                return False
            stay.shared = any(other.idle_since is None for other in others)
            stay.alone = not stay.shared or time.monotonic() - stay.idle_since > _LONGEST
            return stay.alone

    def leave(self, stay: Stay) -> None:
        """Also for one that gave up waiting."""
        with self._lock:
            if stay in self._stays:
                self._stays.remove(stay)
            if self._next.get(stay.device) is stay:
                del self._next[stay.device]

    def _others(self, stay: Stay) -> list[Stay]:
        return [other for other in self._stays if other.device == stay.device and other is not stay]

    def _has_room(self, stay: Stay, others: list[Stay]) -> bool:
        if self._next.get(stay.device, stay) is not stay:
            return False
        if stay.alone and others:
            self._next[stay.device] = stay
            return False
        latest = time.monotonic() - _PATIENCE
        if any(other.alone or (other.idle_since or latest) < latest for other in others):
            return False
        total = stay.total or max((other.total or 0 for other in others), default=0)
        taken = sum(other.bytes or 0 for other in [*others, stay])
        return all(other.owner is stay.owner for other in others) or not total or taken <= _SHARE * total


def ran_out_of_memory(reported: object) -> bool:
    """By what a child told; others on the device may have been the reason."""
    text = str(reported)
    return any(words in text for words in _OUT_OF_MEMORY)
