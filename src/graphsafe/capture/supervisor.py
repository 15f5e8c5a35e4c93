"""The parent's side: starts children, listens, stops them in time, and leaves none behind.

It never touches CUDA and never imports the user's code. On Linux children fork from `server`; elsewhere, or where the
server does not start, each is a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from graphsafe.capture.job import Job, read_phases, read_result

Ending = Literal["done", "crashed", "timeout", "stopped"]

_KEPT_BYTES = 64 * 1024
_SERVER_START = 120.0
_ROOT = str(Path(__file__).resolve().parents[2])
# The folder that Python puts first on the path could hold the user's own `random.py`; no process of ours wants it.
_CLEAN_PATH = f"import sys; '' in sys.path[:1] and sys.path.pop(0); sys.path.append({_ROOT!r}); "


class Child:
    """One child process, as its parent sees it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.started = time.monotonic()
        self.seconds = 0.0
        self.pid: int | None = None
        self.status: int | None = None
        "The exit status, or minus the signal that ended it."
        self.ending: Ending | None = None
        self._output = bytearray()
        self._reader: threading.Thread | None = None

    @property
    def name(self) -> str:
        return self.job.child

    @property
    def result(self) -> dict[str, object]:
        return read_result(Path(self.job.folder), self.name)

    @property
    def phase(self) -> str:
        """What it was doing last."""
        return (read_phases(Path(self.job.folder), self.name) or ["start"])[-1]

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of what it printed, each line cut to 400 characters."""
        lines = bytes(self._output).decode(errors="replace").replace("\r", "\n").splitlines()
        return [line[:400] for line in lines if line.strip()][-count:]

    def how_it_ended(self) -> str:
        """In words, for a child that did not finish."""
        if self.ending == "timeout":
            return f"no end after {self.seconds:.0f} s, in phase: {self.phase}"
        if self.status is not None and self.status < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-self.status).name}, in phase: {self.phase}"
        return f"the process exited with status {self.status}, in phase: {self.phase}"

    def drain(self, descriptor: int) -> None:
        """Keep the last of what comes out of a pipe, in a thread of its own; a target may print without end."""
        self._reader = threading.Thread(target=self._read, args=(descriptor,), daemon=True)
        self._reader.start()

    def _read(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                self._output += chunk
                if len(self._output) > 2 * _KEPT_BYTES:
                    del self._output[:-_KEPT_BYTES]

    def drained(self) -> None:
        if self._reader is not None:
            # A process that left the child's group may hold the pipe open for ever.
            self._reader.join(timeout=1.0)


class Supervisor:
    """Runs jobs in children. Use as a context manager: nothing is left running after it."""

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self.timeout = 300.0
        "Seconds that a child may take."
        self._progress = progress
        self._running: dict[int, Child] = {}
        self._spawned: dict[int, subprocess.Popen[bytes]] = {}
        self._next = 0
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._said: dict[int, str] = {}

    def __enter__(self) -> Supervisor:
        if sys.platform == "linux":
            self._start_server()
        return self

    def __exit__(self, *error: object) -> None:
        for child in list(self._running.values()):
            self.stop(child)
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            try:
                self._server.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()

    def run(self, job: Job) -> Child:
        child = self.start(job)
        self.wait([child])
        return child

    def start(self, job: Job) -> Child:
        child = Child(job)
        number = self._next = self._next + 1
        read, write = os.pipe()
        self._running[number] = child
        if self._socket is not None:
            socket.send_fds(self._socket, [json.dumps({"id": number, "job": job.to_json()}).encode()], [write])
        else:
            self._spawned[number] = self._spawn(job, write)
            child.pid = self._spawned[number].pid
        os.close(write)
        child.drain(read)
        return child

    def wait(self, children: Iterable[Child], ended: Callable[[Child], None] = lambda child: None) -> None:
        """Until all of these have ended, each by itself or at its time limit; `ended` is told of each."""
        waited = list(children)
        while True:
            for child in [child for child in waited if child.ending is not None]:
                waited.remove(child)
                ended(child)
            if not waited:
                return
            self._listen()
            now = time.monotonic()
            for child in list(self._running.values()):
                if now - child.started > self.timeout:
                    self.stop(child, "timeout")
            time.sleep(0.02)

    def stop(self, child: Child, ending: Ending = "stopped") -> None:
        """Kill a child and its whole group; one that has ended already stays as it ended."""
        deadline = time.monotonic() + 10
        while child.ending is None and time.monotonic() < deadline:
            if child.pid is not None:
                _kill_group(child.pid)
            self._listen(ending)
            time.sleep(0.01)
        if child.ending is None:
            self._ended(self._number(child), None, ending)

    def use_fresh_interpreters(self) -> bool:
        """From now on spawn children instead of forking them; whether that changes anything."""
        forked = self._socket is not None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        return forked

    def _number(self, child: Child) -> int:
        return next(number for number, running in self._running.items() if running is child)

    def _listen(self, killed_as: Ending | None = None) -> None:
        """Take in what the server and the children have said since."""
        for message in self._messages():
            if "pid" in message:
                self._running[message["id"]].pid = message["pid"]
            elif "status" in message:
                self._ended(message["id"], message["status"], killed_as)
        for number, process in list(self._spawned.items()):
            status = process.poll()
            if status is not None:
                _kill_group(process.pid)
                del self._spawned[number]
                self._ended(number, status, killed_as)
        for number, child in self._running.items():
            self._say(number, child)

    def _ended(self, number: int, status: int | None, killed_as: Ending | None) -> None:
        child = self._running.pop(number)
        child.status = status
        child.seconds = time.monotonic() - child.started
        child.drained()
        killed = killed_as is not None and (status is None or status == -9)
        child.ending = "done" if "done" in child.result else killed_as if killed and killed_as else "crashed"

    def _say(self, number: int, child: Child) -> None:
        phase = child.phase
        if self._progress is not None and self._said.get(number) != phase:
            self._said[number] = phase
            axes = ",".join(f"{axis}={value}" for axis, value in child.job.axes.items())
            where = " ".join(part for part in (child.job.device, axes, child.name) if part)
            self._progress(f"{where}: {phase}")

    def _start_server(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = _CLEAN_PATH + f"from graphsafe.capture.server import serve; serve({theirs.fileno()})"
        self._server = subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "GRAPHSAFE": "1"},
        )
        theirs.close()
        ours.settimeout(_SERVER_START)
        try:
            ready = ours.recv(65536)
        except OSError:
            ready = b""
        if ready:
            ours.setblocking(False)
            self._socket = ours
        else:
            ours.close()
            self._server.kill()
            self._server.wait()
            self._server = None

    def _messages(self) -> list[dict[str, int]]:
        messages = []
        while self._socket is not None:
            try:
                text = self._socket.recv(65536)
            except BlockingIOError:
                break
            except OSError:
                text = b""
            if not text:
                self._lost_server()
                break
            messages.append(json.loads(text))
        return messages

    def _lost_server(self) -> None:
        """The server died, and its children with it (they ask the kernel for that): later ones are spawned."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        for number in [number for number in self._running if number not in self._spawned]:
            self._ended(number, None, None)

    def _spawn(self, job: Job, output: int) -> subprocess.Popen[bytes]:
        code = _CLEAN_PATH + "from graphsafe.capture import child, job; child.main(job.Job.from_json(sys.argv[1]))"
        return subprocess.Popen(
            [sys.executable, "-c", code, job.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "GRAPHSAFE": "1"},
        )


def _kill_group(pid: int) -> None:
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True, check=False)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
