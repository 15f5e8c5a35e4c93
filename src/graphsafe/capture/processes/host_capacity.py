"""How much the host has room for."""

from __future__ import annotations

import os
import sys

_CORES = 3
"For children of one device that compute at the same time."
_BYTES = 8 << 30
"Memory of the host for them."


def at_a_time() -> int:
    """How many devices or targets: each has up to three children that compute, of a few GB of memory in all."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores // _CORES, _free_memory() // _BYTES))


def _free_memory() -> int:
    """Of the host; without bound where it does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            reported = dict(line.split(":", 1) for line in lines)
        return int(reported["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return sys.maxsize
