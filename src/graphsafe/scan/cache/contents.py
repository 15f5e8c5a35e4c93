"""Digests the files of a project, and checks after a scan that they have not changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from graphsafe.scan.sources.source import Unreadable, digest, read_bytes

TICK_SECONDS = 2.0
"""The resolution in seconds of the coarsest file system clock (FAT). A file that was changed less than this time ago
may change again and keep the same timestamp."""
Stamp = tuple[int, int, int]


class Contents:
    """The digests of files before a scan. After the scan, the files are compared with these digests."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.digests: dict[str, str] = {}
        "Path -> digest, for each file that can be read."
        self._stamps: dict[str, Stamp | None] = {}
        settled = time.time() - TICK_SECONDS
        for path in paths:
            try:
                status = os.stat(path)
                self.digests[path] = digest(read_bytes(path))
            except (OSError, Unreadable):
                continue
            self._stamps[path] = _stamp(status) if status.st_mtime < settled else None

    def hold(self, paths: Iterable[str]) -> bool:
        """Return whether the same files as before can be read and have the same contents."""
        found = 0
        for path in paths:
            try:
                stamp = _stamp(os.stat(path))
                if stamp != self._stamps.get(path) and digest(read_bytes(path)) != self.digests.get(path):
                    return False
            except (OSError, Unreadable):
                continue
            found += 1
        return found == len(self.digests)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size
