"""Tells how many children the host has room for."""

from __future__ import annotations

import os
import sys

_CORES = 3
"Number of cores that the children of one device use at the same time."
_BYTES = 8 << 30
"Host memory for the children of one device."


def at_a_time() -> int:
    """Return how many devices or targets to run at a time: each has up to three computing children and takes a few GB
    in all."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores // _CORES, _free_memory() // _BYTES))


def _free_memory() -> int:
    """Return the free memory of the host; infinite where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            reported = dict(line.split(":", 1) for line in lines)
        return int(reported["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return sys.maxsize
