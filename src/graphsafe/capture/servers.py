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
from typing import Any

from graphsafe.capture.job import Job

_START_SECONDS = 120.0
_END_SECONDS = 5.0
_ROOT = str(Path(__file__).resolve().parents[2])
CLEAN_PATH = f"import sys; '' in sys.path[:1] and sys.path.pop(0); sys.path.append({_ROOT!r}); "
"""The folder that Python puts first on the path could hold the user's own `random.py`; no process of ours wants it."""


class Server:
    """A process to fork from. Closing it ends all that descends from it."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.gone = False
        self._socket = connection
        self._process = process
        self._messages: list[dict[str, Any]] = []

    @staticmethod
    def start(*, with_torch: bool) -> Server | None:
        """A process of its own; None where it does not start."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            code = f"from graphsafe.capture import server; server.start({theirs.fileno()}, with_torch={with_torch})"
            process = subprocess.Popen(
                [sys.executable, "-c", CLEAN_PATH + code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "GRAPHSAFE": "1"},
            )
        return Server(ours, process)._if_ready()

    def branch(self) -> Server | None:
        """Another server, forked from this one. May be called by several threads at once."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            if not self._ask({"branch": True}, theirs.fileno()):
                ours.close()
                return None
        return Server(ours)._if_ready()

    def fork(self, number: int, job: Job, output: int) -> bool:
        """A child, whose `pid` and `status` arrive as messages with that number; False where the server is gone."""
        return self._ask({"id": number, "job": job.to_json()}, output)

    def messages(self, patience: float = 0.0) -> list[dict[str, Any]]:
        """What has arrived; waits for the first one for `patience` seconds."""
        messages, self._messages = self._messages, []
        while not self.gone and select.select([self._socket], [], [], 0.0 if messages else patience)[0]:
            try:
                text = self._socket.recv(65536)
            except OSError:
                text = b""
            if text:
                messages.append(json.loads(text))
            else:
                self.gone = True
        return messages

    def close(self) -> None:
        """Returns when all is ended, or after some seconds."""
        deadline = time.monotonic() + _END_SECONDS
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
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
            self.gone = True
            return False
        return True

    def _if_ready(self) -> Server | None:
        deadline = time.monotonic() + _START_SECONDS
        while not self.gone and time.monotonic() < deadline:
            self._messages = self.messages(0.5)
            if self._messages:
                self._messages.pop(0)
                return self
        if self._process is not None:
            self._process.kill()
        self.close()
        return None
