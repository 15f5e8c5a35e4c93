"""Waits until a file that a scan reads is changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from graphsafe.scan.sources.find import ALWAYS_SKIPPED

_READ = (".py", ".toml", ".yaml", ".yml", ".gitignore")
"Suffixes of the files that affect a scan's report: code, configuration, baselines, rule packs and ignore files."
PAUSE = 0.3
"""The number of seconds between two checks.

A scan begins when nothing has changed for this long, because editors write a file in several steps.
"""

State = Mapping[str, tuple[int, int]]


def state_of(folders: Iterable[Path]) -> State:
    """Return the time and size of the files below folders, by path. Unreadable files are left out."""
    found: dict[str, tuple[int, int]] = {}
    waiting = [str(folder) for folder in folders]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in ALWAYS_SKIPPED and entry.name != ".graphsafe_cache":
                            waiting.append(entry.path)
                    elif entry.name.endswith(_READ):
                        status = entry.stat()
                        found[entry.path] = (status.st_mtime_ns, status.st_size)
        except OSError:
            continue
    return found


def wait_for_change(folders: Iterable[Path], before: State) -> State:
    """Wait until the state differs from `before` and nothing has changed since the last check. Return the new state."""
    folders = list(folders)
    last = before
    while True:
        now = state_of(folders)
        if now != before and now == last:
            return now
        last = now
        time.sleep(PAUSE)
