"""Indexes files in several processes, with the same result as one process."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from graphsafe.own_python import can_spawn_safely, safe_spawning
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.project_files import build

ENOUGH_FILES = 200
"The smallest number of files for which an additional process saves time."
CHUNK = 16
MAX_READERS = 4
"The largest number of processes that read hot code. More processes would read most of it several times."

Job = tuple[str, str, bool]
"The path of a file, its module name, and whether it is a package's `__init__`."


def process_count(jobs: int | None, files: int) -> int:
    """Return how many processes read this many files. If `jobs` is None, the number is one per core, provided that
    there is enough to do."""
    return jobs if jobs is not None else (os.cpu_count() or 1) if files >= ENOUGH_FILES else 1


def build_indexes(work: Mapping[str, tuple[str, bool]], count: int) -> dict[str, FileIndex]:
    """Return the indexes of the files that Python can parse, by path. The result is empty if several processes would
    not be faster."""
    if count <= 1 or not work:
        return {}
    # Forking is safe here, because graphsafe has started no thread yet. On other systems, a new process would have to
    # import its modules.
    can_fork = sys.platform == "linux"
    if not (can_fork or can_spawn_safely()):
        return {}
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    listed = [(path, *name) for path, name in work.items()]
    chunks = [listed[start : start + CHUNK] for start in range(0, len(listed), CHUNK)]
    found: dict[str, FileIndex] = {}
    try:
        with safe_spawning(), ProcessPoolExecutor(count, mp_context=context, initializer=gc.disable) as pool:
            for indexes in pool.map(_build, chunks):
                found.update((index.path, index) for index in indexes)
    except (BrokenProcessPool, OSError):
        return found
    return found


def _build(chunk: list[Job]) -> list[FileIndex]:
    """Index files. Files with newer syntax and unreadable files are left out: the calling process handles them."""
    made = (build(Path(path), module, is_package) for path, module, is_package in chunk)
    return [index for index in made if index is not None]
