"""Servers that all targets of one command fork from: torch is imported once, and each file of targets is."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from graphsafe.capture.job import Job
from graphsafe.capture.processes.servers import Server

_POLL = 0.02


@dataclass(slots=True)
class _File:
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: Server | None = None
    refused: str | None = None


class SharedServers:
    """Use as a context manager: no server is left after it. For several threads, each with a supervisor."""

    def __init__(self) -> None:
        self._clean: Server | None = None
        self._files: dict[tuple[str, str, int], _File] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> SharedServers:
        self._clean = Server.start(with_torch=True) if sys.platform == "linux" else None
        return self

    def __exit__(self, *error: object) -> None:
        for server in (*(file.server for file in self._files.values()), self._clean):
            if server is not None:
                server.close()

    def clean(self) -> Server | None:
        """A server of one's own that has imported torch and nothing of the user's; None where children cannot fork."""
        return None if self._clean is None else branch(self._clean, None, None)

    def with_file(self, job: Job, check: Callable[[], None], wait: Callable[[Server], bool]) -> Server | str | None:
        """A server of one's own that has imported the file of the job's target, or why that is not to be shared; None
        where children cannot fork.

        The first to ask has it imported; `wait` says whether its server became ready. The others call `check` now and
        then while they wait, which may raise.
        """
        if self._clean is None:
            return None
        with self._lock:
            file = self._files.setdefault((job.where, job.imports_for, job.seed), _File())
        with _patient(file.lock, check):
            if file.server is None and file.refused is None:
                server = branch(self._clean, "prepare", job)
                if server is not None and wait(server):
                    file.server = server
                else:
                    file.refused = (server and server.refused) or "the import did not end"
                    if server is not None:
                        server.close()
        return file.refused if file.server is None else branch(file.server, None, None)


@contextmanager
def _patient(lock: threading.Lock, check: Callable[[], None]) -> Iterator[None]:
    while not lock.acquire(timeout=_POLL):
        check()
    try:
        yield
    finally:
        lock.release()


def branch(server: Server, what: Literal["prepare", "follow"] | None, job: Job | None) -> Server | None:
    """`Server.branch`, with nobody to listen to what it prints."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        return server.branch(what, job, nothing)
    finally:
        os.close(nothing)
