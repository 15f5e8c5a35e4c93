"""Decides which children may use a GPU: several together as long as its memory suffices, but only one while times are
measured. Also computes for how many devices or targets the host has enough cores and memory."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass

_SHARE = 0.8
"The share of a device's memory that children of several targets may use together."
_PATIENCE = 10.0
"If a child has waited for this many seconds to be alone on a device, no further child may enter."
_LONGEST = 20.0
"""The largest number of seconds that a child waits to be alone. There is a limit because another target may take
minutes to build on the host."""
_OUT_OF_MEMORY = ("OutOfMemoryError", "out of memory", "ALLOC_FAILED")


@dataclass(eq=False, slots=True)
class DeviceStay:
    """The use of a device by one child, from before the child's start until its end."""

    device: str
    owner: object
    "The owner of the child. Children of one owner exclude each other only if one of them must be alone on the device."
    bytes: int | None
    """Number of bytes that the child takes. None if the target has not been built yet, because the number is not known
    before that."""
    total: int | None
    "The bytes of memory that the device has, if known."
    alone: bool = False
    "Whether no other child may enter."
    shared: bool = False
    "Whether other children continue to use the device while this child measures."
    company: bool = False
    "Whether a child of another owner was on the device at any time during the stay."
    idle_since: float | None = None
    "The time at which the child began to wait until no other child uses the device; None before that."


class DeviceUse:
    """The use of all devices. The threads of a command share this object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stays: list[DeviceStay] = []
        self._next: dict[str, DeviceStay] = {}
        """Device -> the child that enters next, because it must be alone. No other child enters before it; otherwise it
        might wait forever."""

    def enter(self, stay: DeviceStay) -> bool:
        """Let a child enter if there is room now. Return whether it has entered; if not, call this again later."""
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

    def have_alone(self, stay: DeviceStay) -> bool:
        """Return whether a child that has entered may measure now. If not, call this again later.

        A child may measure when all other children on the device also wait to be alone. So children of several targets
        prepare concurrently and measure one after another. A child that has waited too long measures although others
        continue (`shared`).
        """
        with self._lock:
            stay.idle_since = stay.idle_since or time.monotonic()
            others = self._others(stay)
            if any(other.alone for other in others):
                return False
            stay.shared = any(other.idle_since is None for other in others)
            stay.alone = not stay.shared or time.monotonic() - stay.idle_since > _LONGEST
            return stay.alone

    def leave(self, stay: DeviceStay) -> None:
        """Remove a child from the device, or from the queue if the child has only waited to enter."""
        with self._lock:
            if stay in self._stays:
                self._stays.remove(stay)
            if self._next.get(stay.device) is stay:
                del self._next[stay.device]

    def _others(self, stay: DeviceStay) -> list[DeviceStay]:
        return [other for other in self._stays if other.device == stay.device and other is not stay]

    def _has_room(self, stay: DeviceStay, others: list[DeviceStay]) -> bool:
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
    """Return whether a child's answer shows that it ran out of memory. Other children on the device may be the
    reason."""
    text = str(reported)
    return any(words in text for words in _OUT_OF_MEMORY)


_CORES = 3
"Number of cores that the children of one device use at the same time."
_BYTES = 8 << 30
"The bytes of host memory that the children of one device need."


def at_a_time() -> int:
    """Return how many devices or targets to run at a time. Each has up to three children that compute."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores // _CORES, _free_memory() // _BYTES))


def _free_memory() -> int:
    """Return the free memory of the host in bytes; a very large number if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            reported = dict(line.split(":", 1) for line in lines)
        return int(reported["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return sys.maxsize
