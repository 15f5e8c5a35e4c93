"""Holds the servers from which all targets of one command fork, so that torch and each file of targets are imported
only once."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from graphsafe.capture.parent.supervision.servers import Server
from graphsafe.capture.shared.job import Job
from graphsafe.capture.shared.serving import Import

_POLL = 0.02


@dataclass(slots=True)
class _File:
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: Server | None = None
    refused: str | None = None


class SharedServers:
    """The servers of one command. Use it as a context manager: no server is left after it. Several threads, each with
    its own supervisor, may use it."""

    def __init__(self, folder: str, kept: Server | None = None) -> None:
        """`folder` is where the children write.

        `kept` is a server that has imported torch and outlives this object; it may have been started in another working
        directory.
        """
        self.folder = folder
        self._kept = kept
        self._clean: Server | None = None
        self._files: dict[tuple[str, str, int], _File] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> SharedServers:
        if self._kept is not None:
            self._clean = branch(self._kept, None, None, _working_folder())
        else:
            self._clean = Server.start(self.folder, with_torch=True) if sys.platform == "linux" else None
        return self

    def __exit__(self, *error: object) -> None:
        for server in (*(file.server for file in self._files.values()), self._clean):
            if server is not None:
                server.close()

    @property
    def forks(self) -> bool:
        """Return whether children can fork here."""
        return self._clean is not None

    def clean(self) -> Server | None:
        """Return a new server that has imported torch and none of the user's code; None where children cannot fork."""
        return None if self._clean is None else branch(self._clean, None, None)

    def with_file(self, job: Job, check: Callable[[], None], wait: Callable[[Server], bool]) -> Server | str | None:
        """Return a new server that has imported the file of the job's target, or the reason why the import cannot be
        shared; None if children cannot fork.

        The imports at the beginning of the factory are also made, if they can be shared. The first caller starts the
        import, and `wait` returns whether the server became ready. Other callers wait and occasionally call `check`,
        which may raise.
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
        if file.server is None:
            return file.refused
        server = branch(file.server, "ahead", job)
        if server is None or wait(server):
            return server
        server.close()
        return branch(file.server, None, None)


@contextmanager
def _patient(lock: threading.Lock, check: Callable[[], None]) -> Iterator[None]:
    while not lock.acquire(timeout=_POLL):
        check()
    try:
        yield
    finally:
        lock.release()


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # the file was removed
        return None


def branch(server: Server, what: Import | None, job: Job | None, folder: str | None = None) -> Server | None:
    """Call `Server.branch` and discard the new server's output."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        return server.branch(what, job, nothing, folder)
    finally:
        os.close(nothing)
