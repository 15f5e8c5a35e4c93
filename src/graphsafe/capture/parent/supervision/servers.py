"""The parent's side of the processes from which children are forked; `graphsafe.capture.child.server` is the other
side. Only for Linux."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from graphsafe import own_python
from graphsafe.capture.processes.descendants import kill_group
from graphsafe.capture.shared.answers import Answers, written
from graphsafe.capture.shared.frames import absolute
from graphsafe.capture.shared.job import Job
from graphsafe.capture.shared.serving import Branch, ChildState, End, Fork, Import, ServerState

_POLL = 0.02


@dataclass(slots=True)
class _File:
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: Server | None = None
    refused: str | None = None


class SharedServers:
    """The servers of one command. All targets of the command fork from these servers, so that torch and each file of
    targets are imported only once. Several threads, each with its own supervisor, may use this object. Use it as a
    context manager: at the end of the block no server is left."""

    def __init__(self, folder: str, kept: Server | None = None) -> None:
        """`folder` is the folder to which the children write. `kept` is a server that has imported torch and is not
        closed here. `kept` may have been started in another working directory."""
        self.folder = folder
        self._kept = kept
        self._clean: Server | None = None
        self._files: dict[tuple[str, str, int], _File] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> SharedServers:
        if self._kept is not None:
            self._clean = self._kept.branch(folder=absolute("") or None)
        else:
            self._clean = Server.start(self.folder, with_torch=True) if sys.platform == "linux" else None
        return self

    def __exit__(self, *error: object) -> None:
        for server in (*(file.server for file in self._files.values()), self._clean):
            if server is not None:
                server.close()

    @property
    def forks(self) -> bool:
        """Whether children can be forked on this system."""
        return self._clean is not None

    def clean(self) -> Server | None:
        """Return a new server that has imported torch and none of the user's code. Return None if children cannot be
        forked."""
        return None if self._clean is None else self._clean.branch()

    def with_file(self, job: Job, deadline: float, check: Callable[[], None]) -> Server | str | None:
        """Return a new server that has imported the file of the job's target. Return the reason if the import cannot be
        shared, and None if children cannot be forked.

        The new server also runs the imports at the beginning of the factory, if they can be shared. The first caller
        starts the import, and waits until `deadline` at most. Other callers wait too. Meanwhile `check` is called again
        and again, and may raise.
        """
        if self._clean is None:
            return None
        with self._lock:
            file = self._files.setdefault((job.where, job.imports_for, job.seed), _File())
        while not file.lock.acquire(timeout=_POLL):
            check()
        try:
            if file.server is None and file.refused is None:
                server = self._clean.branch("prepare", job)
                if server is not None and server.becomes_ready(deadline, check):
                    file.server = server
                else:
                    file.refused = (server and server.refused) or "the import did not finish"
                    if server is not None:
                        server.close()
        finally:
            file.lock.release()
        if file.server is None:
            return file.refused
        server = file.server.branch("ahead", job)
        if server is None or server.becomes_ready(deadline, check):
            return server
        server.close()
        return file.server.branch()


_START_SECONDS = 120.0
_END_SECONDS = 5.0


class Server:
    """A process to fork from. Closing it ends all its descendants."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.ready = False
        self.gone = False
        self.refused: str | None = None
        self._socket = connection
        self._process = process
        self._pid: int | None = None

    @staticmethod
    def start(folder: str, *, with_torch: bool) -> Server | None:
        """Start a server in a new process. The server removes `folder` if the present process is killed. Return None if
        the server does not start."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            imports = "server.import_torch" if with_torch else "lambda: None"
            arguments = f"{theirs.fileno()}, {imports}, {folder!r}"
            code = f"from graphsafe.capture.child import server; server.start({arguments})"
            process = subprocess.Popen(
                own_python.command(code),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=own_python.environment(),
            )
        server = Server(ours, process)
        try:
            return server if server.becomes_ready(time.monotonic() + _START_SECONDS) else None
        finally:
            if not server.ready:  # this also happens if a signal interrupts the wait
                server.close()

    def becomes_ready(self, deadline: float, check: Callable[[], None] = lambda: None) -> bool:
        """Wait until the server is ready or gone, until `deadline` at most. Return whether it is ready. Meanwhile
        `check` is called again and again, and may raise."""
        while not (self.ready or self.gone) and time.monotonic() < deadline:
            check()
            self.messages(_POLL)
        return self.ready

    def branch(self, what: Import | None = None, job: Job | None = None, folder: str | None = None) -> Server | None:
        """Fork another server from this server. The new server runs the job's imports if `what` is given. Return None
        if this server is gone.

        The new server works in `folder`, or else in this server's folder, and its output is discarded. The new server
        becomes `ready` or `gone` some time later. Several threads may call this method at the same time.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(os.devnull, "wb") as nothing:
            if self._ask(Branch(what, job, folder), theirs.fileno(), nothing.fileno()):
                return Server(ours)
        ours.close()
        return None

    def fork(self, number: int, job: Job, output: int) -> bool:
        """Fork a child; `number` identifies it in messages about its state. Return False if the server is gone."""
        return self._ask(Fork(number, job), output)

    def fileno(self) -> int:
        return self._socket.fileno()

    def messages(self, patience: float = 0.0) -> list[ChildState]:
        """Return the messages about children that have arrived. Wait up to `patience` seconds for the first one."""
        messages: list[ChildState] = []
        while not self.gone and select.select([self._socket], [], [], patience)[0]:
            patience = 0.0
            try:
                text = self._socket.recv(65536)
            except OSError:
                text = b""
            if not text:
                self.gone, self.ready = True, False
                break
            answers = Answers(json.loads(text))
            child, own = answers.get(ChildState), answers.get(ServerState)
            messages += [] if child is None else [child]
            if own is not None:
                self._pid, self.ready, self.refused = own.pid, own.ready, own.refused
        return messages

    def kill(self) -> None:
        """Kill a server that does not answer because it is running the user's code."""
        if self._pid is not None:
            kill_group(self._pid)

    def close(self) -> None:
        """End the server. Return when all its descendants have ended, or after some seconds."""
        deadline = time.monotonic() + _END_SECONDS
        with contextlib.suppress(OSError):
            self._ask(End())
            self._socket.shutdown(socket.SHUT_WR)
        self.messages()
        if not self.ready:
            self.kill()
        while not self.gone and time.monotonic() < deadline:
            self.messages(0.1)
        self._socket.close()
        if self._process is not None:
            try:
                self._process.wait(timeout=max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _ask(self, request: Fork | Branch | End, *descriptors: int) -> bool:
        try:
            socket.send_fds(self._socket, [json.dumps(written(request)).encode()], descriptors)
        except OSError:
            self.gone, self.ready = True, False
            return False
        return True
