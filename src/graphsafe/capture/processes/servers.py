"""The parent's end of the processes that children fork from; `server` is the other end. Linux."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

from graphsafe.capture.job import Job
from graphsafe.capture.processes.descendants import kill_group

_START_SECONDS = 120.0
_END_SECONDS = 5.0
_ROOT = str(Path(__file__).resolve().parents[3])
CLEAN_PATH = f"import sys; '' in sys.path[:1] and sys.path.pop(0); sys.path.append({_ROOT!r}); "
"""The folder that Python puts first on the path could hold the user's own `random.py`; no process of ours wants it."""


class Server:
    """A process to fork from. Closing it ends all that descends from it."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.ready = False
        self.gone = False
        self.refused: str | None = None
        "Why it is of no use: what it imported must not be shared."
        self._socket = connection
        self._process = process
        self._pid: int | None = None

    @staticmethod
    def start(*, with_torch: bool) -> Server | None:
        """A process of its own; None where it does not start."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            imports = "server.import_torch" if with_torch else "lambda: None"
            code = f"from graphsafe.capture.processes import server; server.start({theirs.fileno()}, {imports})"
            process = subprocess.Popen(
                [sys.executable, "-c", CLEAN_PATH + code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "GRAPHSAFE": "1"},
            )
        server = Server(ours, process)
        deadline = time.monotonic() + _START_SECONDS
        try:
            while not (server.ready or server.gone) and time.monotonic() < deadline:
                server.messages(0.5)
        finally:
            if not server.ready:  # also where a signal to end has come
                server.close()
        return server if server.ready else None

    def branch(self, what: Literal["prepare", "follow"] | None, job: Job | None, output: int) -> Server | None:
        """Another server, forked from this one: alike, or with the job's imports made; None where this one is gone.

        It is `ready` or `gone` some time later. May be called by several threads at once.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            request = {"branch": what, "job": None if job is None else job.to_json()}
            if self._ask(request, theirs.fileno(), output):
                return Server(ours)
        ours.close()
        return None

    def fork(self, number: int, job: Job, output: int) -> bool:
        """A child, whose `pid` and `status` arrive as messages with that number; False where the server is gone."""
        return self._ask({"id": number, "job": job.to_json()}, output)

    def fileno(self) -> int:
        return self._socket.fileno()

    def messages(self, patience: float = 0.0) -> list[dict[str, Any]]:
        """What has arrived about children; waits for anything to arrive for `patience` seconds."""
        messages: list[dict[str, Any]] = []
        while not self.gone and select.select([self._socket], [], [], patience)[0]:
            patience = 0.0
            try:
                text = self._socket.recv(65536)
            except OSError:
                text = b""
            if not text:
                self.gone, self.ready = True, False
                break
            message = json.loads(text)
            if "id" in message:
                messages.append(message)
                continue
            self._pid = message.get("pid", self._pid)
            self.ready = message.get("ready", self.ready)
            self.refused = message.get("refused", self.refused)
        return messages

    def kill(self) -> None:
        """Where it does not listen, since the user's code runs in it."""
        if self._pid is not None:
            kill_group(self._pid)

    def close(self) -> None:
        """Returns when all is ended, or after some seconds."""
        deadline = time.monotonic() + _END_SECONDS
        with contextlib.suppress(OSError):
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

    def _ask(self, request: dict[str, Any], *descriptors: int) -> bool:
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        except OSError:
            self.gone, self.ready = True, False
            return False
        return True
