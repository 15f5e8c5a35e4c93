"""The parent's side: starts children, listens, stops them in time, and leaves none behind.

It never touches CUDA and never imports the user's code. On Linux children fork from a `server`; elsewhere each is a
fresh interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable

from graphsafe.capture.child_process import Child, Ending
from graphsafe.capture.job import Job
from graphsafe.capture.processes import kill_group
from graphsafe.capture.servers import CLEAN_PATH, Server

_POLL = 0.02


class Supervisor:
    """Runs the jobs of one target in children. Use as a context manager: nothing is left running after it."""

    def __init__(
        self,
        progress: Callable[[str], None] | None = None,
        clean: Server | None = None,
        interrupted: threading.Event | None = None,
    ) -> None:
        """`clean`: a server that has imported torch, shared with others; else one is started.

        When `interrupted` is set, waiting raises KeyboardInterrupt.
        """
        self.timeout = 300.0
        "Seconds that a child may take."
        self._progress = progress
        self._clean = clean
        self._interrupted = interrupted or threading.Event()
        self._servers: list[Server] = []
        "The last one is forked from."
        self._running: dict[int, Child] = {}
        self._spawned: dict[int, subprocess.Popen[bytes]] = {}
        self._next = 0
        self._said: dict[int, str] = {}

    def __enter__(self) -> Supervisor:
        if sys.platform == "linux":
            self._use(Server.start(with_torch=True) if self._clean is None else self._clean.branch())
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._running.values():
            if child.pid is not None:
                kill_group(child.pid)
        for server in reversed(self._servers):
            server.close()
        for process in self._spawned.values():
            kill_group(process.pid)
            process.wait()

    def run(self, job: Job) -> Child:
        child = self.start(job)
        self.wait([child])
        return child

    def start(self, job: Job) -> Child:
        child = Child(job)
        number = self._next = self._next + 1
        read, write = os.pipe()
        self._running[number] = child
        if not (self._servers and self._servers[-1].fork(number, job, write)):
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
            if self._interrupted.is_set():
                raise KeyboardInterrupt
            self._listen()
            now = time.monotonic()
            for child in list(self._running.values()):
                if now - child.started > self.timeout:
                    self.stop(child, "timeout")

    def stop(self, child: Child, ending: Ending = "stopped") -> None:
        """Kill a child and its whole group; one that has ended already stays as it ended."""
        deadline = time.monotonic() + 10
        while child.ending is None and time.monotonic() < deadline:
            if child.pid is not None:
                kill_group(child.pid)
            self._listen(ending)
        if child.ending is None:
            self._end(next(number for number, running in self._running.items() if running is child), None, ending)

    def use_fresh_interpreters(self) -> bool:
        """From now on start children anew instead of forking them from what has imported torch; whether that changes
        anything."""
        if not self._servers:
            return False
        while self._servers:
            self._servers.pop().close()
        if sys.platform == "linux":
            self._use(Server.start(with_torch=False))
        return True

    def _use(self, server: Server | None) -> None:
        if server is not None:
            self._servers.append(server)

    def _listen(self, killed_as: Ending | None = None) -> None:
        """Take in what the servers and the children have said since; wait a moment for it."""
        for server in self._servers[-1:]:
            for message in server.messages(_POLL):
                child = self._running.get(message["id"])
                if child is not None and "pid" in message:
                    child.pid = message["pid"]
                elif child is not None:
                    self._end(message["id"], message["status"], killed_as)
            if server.gone:
                self._lose(server)
        if not self._servers:
            time.sleep(_POLL)
        for number, process in list(self._spawned.items()):
            status = process.poll()
            if status is not None:
                kill_group(process.pid)
                del self._spawned[number]
                self._end(number, status, killed_as)
        for number, child in self._running.items():
            self._say(number, child)

    def _end(self, number: int, status: int | None, killed_as: Ending | None) -> None:
        self._running.pop(number).ended(status, killed_as)

    def _lose(self, server: Server) -> None:
        """The server died, and its children with it (they ask the kernel for that): later ones are started anew."""
        for number in [number for number in self._running if number not in self._spawned]:
            self._end(number, None, None)
        self.use_fresh_interpreters()

    def _say(self, number: int, child: Child) -> None:
        phase = child.phase
        if self._progress is not None and self._said.get(number) != phase:
            self._said[number] = phase
            axes = ",".join(f"{axis}={value}" for axis, value in child.job.axes.items())
            where = " ".join(part for part in (child.job.device, axes, child.name) if part)
            self._progress(f"{where}: {phase}")

    def _spawn(self, job: Job, output: int) -> subprocess.Popen[bytes]:
        code = CLEAN_PATH + "from graphsafe.capture import child, job; child.main(job.Job.from_json(sys.argv[1]))"
        return subprocess.Popen(
            [sys.executable, "-c", code, job.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "GRAPHSAFE": "1"},
        )
