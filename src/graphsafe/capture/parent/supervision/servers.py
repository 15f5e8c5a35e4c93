"""The parent's end of the processes that children fork from; `server` is the other end. Linux."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess
import time
from typing import Any, Literal

from graphsafe import own_python
from graphsafe.capture.processes.descendants import kill_group
from graphsafe.capture.shared.job import Job

Import = Literal["prepare", "ahead", "follow"]
"""The imports of a job: `prepare` imports its file, `ahead` also the imports at the beginning of its factory, `follow`
the imports that its build child has made."""
_START_SECONDS = 120.0
_END_SECONDS = 5.0


class Server:
    """A process to fork from. Closing it ends all its descendants."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.ready = False
        self.gone = False
        self.refused: str | None = None
        "The reason why the server cannot be used (its imports must not be shared), or None."
        self._socket = connection
        self._process = process
        self._pid: int | None = None

    @staticmethod
    def start(folder: str, *, with_torch: bool) -> Server | None:
        """Start a process that also removes `folder` if this process is killed; return None if it does not start."""
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
        deadline = time.monotonic() + _START_SECONDS
        try:
            while not (server.ready or server.gone) and time.monotonic() < deadline:
                server.messages(0.5)
        finally:
            if not server.ready:  # even if a signal ends this process meanwhile
                server.close()
        return server if server.ready else None

    def branch(self, what: Import | None, job: Job | None, output: int, folder: str | None = None) -> Server | None:
        """Fork another server from this server, with the job's imports if `what` is given; return None if this server
        is gone.

        The new server works in `folder`, or in this server's folder. It becomes `ready` or `gone` some time later.
        Several threads may call this at once.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            request = {"branch": what, "job": None if job is None else job.to_json(), "folder": folder}
            if self._ask(request, theirs.fileno(), output):
                return Server(ours)
        ours.close()
        return None

    def fork(self, number: int, job: Job, output: int) -> bool:
        """Fork a child. Its `pid` and `status` arrive as messages with that number. Return False if the server is
        gone."""
        return self._ask({"id": number, "job": job.to_json()}, output)

    def fileno(self) -> int:
        return self._socket.fileno()

    def messages(self, patience: float = 0.0) -> list[dict[str, Any]]:
        """Return the messages about children that have arrived; wait up to `patience` seconds for the first."""
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
        """Kill a server that does not listen because the user's code runs in it."""
        if self._pid is not None:
            kill_group(self._pid)

    def close(self) -> None:
        """End the server. Returns when all its descendants have ended, or after some seconds."""
        deadline = time.monotonic() + _END_SECONDS
        with contextlib.suppress(OSError):
            self._socket.send(b'{"end": true}')
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
