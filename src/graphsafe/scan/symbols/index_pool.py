"""Indexes files in several processes. The result is that of one process."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.project_files import build

ENOUGH_FILES = 200
"With fewer a process costs more than it saves."
CHUNK = 16
MAX_READERS = 4
"Of a machine's cores as many read hot code: with more of them most of it is read several times."

Job = tuple[str, str, bool]
"Path, module name, and whether it is a package."


def process_count(jobs: int | None, files: int) -> int:
    """How many processes are to read so many files. `jobs` None: one a core, where there is enough to do for them."""
    return jobs if jobs is not None else (os.cpu_count() or 1) if files >= ENOUGH_FILES else 1


def build_indexes(work: Mapping[str, tuple[str, bool]], count: int) -> dict[str, FileIndex]:
    """The indexes of files, by path: of those that Python can parse. Empty where one process does as well."""
    if count <= 1 or not work:
        return {}
    # Forking is safe here: graphsafe has started no thread yet. Elsewhere a fresh process imports what it needs.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    listed = [(path, *name) for path, name in work.items()]
    chunks = [listed[start : start + CHUNK] for start in range(0, len(listed), CHUNK)]
    found: dict[str, FileIndex] = {}
    try:
        with ProcessPoolExecutor(count, mp_context=context, initializer=gc.disable) as pool:
            for indexes in pool.map(_build, chunks):
                found.update((index.path, index) for index in indexes)
    except (BrokenProcessPool, OSError):
        return found
    return found


def _build(chunk: list[Job]) -> list[FileIndex]:
    """Files with syntax newer than this Python, or beyond reading, are left to the process that asks."""
    made = (build(Path(path), module, is_package) for path, module, is_package in chunk)
    return [index for index in made if index is not None]
