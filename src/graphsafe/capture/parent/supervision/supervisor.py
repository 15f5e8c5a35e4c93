"""Starts children, reads their messages, ends them at their time limit, and leaves none behind. The supervisor never
uses CUDA and never imports the user's code. On Linux, children are forked from a server; on other systems, each is a
new interpreter.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from graphsafe import own_python
from graphsafe.capture.answers.build import DeviceMemory, Ending
from graphsafe.capture.parent.ranks.coordinator import Coordinator
from graphsafe.capture.parent.supervision.child_process import Child
from graphsafe.capture.parent.supervision.device_use import DeviceStay, DeviceUse, ran_out_of_memory
from graphsafe.capture.parent.supervision.servers import Server, SharedServers
from graphsafe.capture.processes.descendants import kill, kill_group
from graphsafe.capture.shared.job import IMPORTS, WAITS_ALONE, Job, forget, grant_device

_POLL = 0.02
_FORKED = "forked subprocess"
"Part of torch's error message if CUDA was started before the fork."


class Supervisor:
    """Runs the jobs of one target on one device in children. Use it as a context manager: nothing is left running after
    the block.

    Children are forked from the server with the most imports. The first server has imported torch. The next has also
    imported the target's module, if that can be shared (`preparation`). The last one, started after the build child has
    built the target, has also imported the factory's libraries.
    """

    def __init__(
        self,
        shared: SharedServers,
        progress: Callable[[str], None] | None = None,
        devices: DeviceUse | None = None,
        interrupted: threading.Event | None = None,
    ) -> None:
        """Supervisors in other threads may use the same `shared`, `progress` and `devices`. Once `interrupted` is set,
        waiting raises KeyboardInterrupt."""
        self.timeout = 300.0
        "Number of seconds allowed per child process."
        self.not_shared: str | None = None
        "The reason why children run their imports themselves, or None."
        self.coordinator = Coordinator(1)
        "Coordinates the ranks of the target, whose children wait for each other."
        self._progress = progress
        self._shared = shared
        self._devices = devices or DeviceUse()
        self._interrupted = interrupted or threading.Event()
        self._servers: list[Server] = []
        self._first: Server | None = None
        "The server that has imported none of the user's code. The server is started when a child needs it."
        self._source: Server | None = None
        "The server to fork from, if it is not the first one."
        self._following: Server | None = None
        "The server that is still importing the libraries of the build child."
        self._fresh = False
        self._followed = False
        "Whether the libraries of a build child have been imported, or could not be imported. This is tried only once."
        self._running: dict[int, Child] = {}
        self._memory: tuple[int | None, int | None] = (None, None)
        "The peak memory of the target and the total memory of the device, in bytes, as the build child reported them."
        self._crowded: list[Child] = []
        "Children that ran out of memory while others were on their device."
        self._spawned: dict[int, subprocess.Popen[bytes]] = {}
        self._next = 0

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._running.values():
            self._kill(child)
        self._close_servers()
        for child in self._running.values():
            if child.stay is not None:
                self._devices.leave(child.stay)
        for process in self._spawned.values():
            kill_group(process.pid)
            process.wait()

    def run(self, job: Job) -> Child:
        while True:
            child = self.start(job)
            self.wait([child])
            if child.name != "build" or not self._may_be_due_to_forking(child):
                return child
            forget(job)

    def start(self, job: Job) -> Child:
        if self._following is not None:
            following, self._following = self._following, None
            self._adopt(following, time.monotonic() + self.timeout)
        child = Child(job)
        self.coordinator.started(child)
        if self.coordinator.size > 1:
            # A module may ask for its rank when it is imported, so ranks do not share imports.
            self.not_shared = "each rank imports for itself"
        if job.child == "build" and not self._fresh and self._source is None and self.not_shared is None:
            self._import_once(child)
        if child.end is None:
            self._launch(child)
        return child

    def wait(self, children: Iterable[Child], ended: Callable[[Child], None] = lambda child: None) -> None:
        """Wait until these children have ended, at their time limit at the latest. Call `ended` for each."""
        waited = list(children)
        while True:
            for child in [child for child in waited if child.end is not None]:
                if child in self._crowded:
                    self._crowded.remove(child)
                    forget(child.job)
                    child.begin()
                    self._launch(child, alone=True)
                else:
                    waited.remove(child)
                    ended(child)
            if not waited:
                return
            self._check()
            self._listen()
            for child in waited:
                self._follow(child)
            self._stop_late()

    def stop(self, child: Child, ending: Ending = "stopped", why: str = "") -> None:
        """Kill a child and its whole group. A child that has already ended is not changed."""
        child.why_stopped = why
        child.stopped_at = time.monotonic()
        child.ask_for_its_stack()
        deadline = time.monotonic() + 10
        while child.end is None and time.monotonic() < deadline:
            self._kill(child)
            self._listen(ending)
        if child.end is None:
            self._end(child, None, ending)

    def _kill(self, child: Child) -> None:
        """Kill a child and its group. For a forked child, the keeper ends the group after the child has had time to
        clean up."""
        if child.pid is not None:
            (kill_group if child.origin is None else kill)(child.pid)

    def use_fresh_interpreters(self) -> bool:
        """Fork children from a process without torch from now on. Return whether that changes anything."""
        if self._fresh or not self._shared.forks:
            return False
        self._fresh = True
        self._close_servers()
        return True

    def _without_users_code(self) -> Server | None:
        """Return the server that has imported none of the user's code. Return None if children cannot be forked."""
        if self._first is None and self._shared.forks:
            folder = self._shared.folder
            self._first = Server.start(folder, with_torch=False) if self._fresh else self._shared.clean()
            self._servers += [self._first] if self._first is not None else []
        return self._first

    def _launch(self, child: Child, *, alone: bool = False) -> None:
        child.stay = self._enter(child, alone)
        source = self._source or self._without_users_code()
        child.number = self._next = self._next + 1
        read, write = os.pipe()
        self._running[child.number] = child
        if source is not None and source.fork(child.number, child.job, write):
            child.origin = source
        else:
            self._spawned[child.number] = _spawn(child.job, write)
            child.pid = self._spawned[child.number].pid
        os.close(write)
        child.drain(read)

    def _enter(self, child: Child, alone: bool) -> DeviceStay | None:
        """Wait until there is room on the child's device. A simulated device always has room."""
        if not child.job.device.startswith("cuda"):
            return None
        needed, total = self._memory
        stay = DeviceStay(child.job.device, self, needed, total, alone)
        before = time.monotonic()
        while not self._devices.enter(stay):
            try:
                self._check()
            except KeyboardInterrupt:
                self._devices.leave(stay)
                raise
            self._listen()
            self._stop_late()
        child.started += time.monotonic() - before
        return stay

    def _stop_late(self) -> None:
        now = time.monotonic()
        for child in list(self._running.values()):
            waits_alone = child.stay is not None and child.stay.idle_since is not None and not child.stay.alone
            if now - child.started > self.timeout and not waits_alone:
                self.stop(child, "timeout")
            elif (why := self.coordinator.why_lost(child)) is not None:
                self.stop(child, "stopped", why)

    def _give_alone(self, child: Child) -> None:
        """Let a child that is ready to measure have the device alone. The time for which it waits does not count
        against its time limit."""
        stay = child.stay
        if child.is_alone:
            return
        if stay is None or stay.alone or self._devices.have_alone(stay):
            if stay is not None and stay.idle_since is not None:
                child.started += time.monotonic() - stay.idle_since
            child.is_alone = True
            grant_device(child.job, shared=stay is not None and stay.shared)

    def _import_once(self, child: Child) -> None:
        """Import the target's module for all children, within the build child's time limit."""
        deadline = child.started + self.timeout
        found = self._shared.with_file(child.job, deadline, self._check)
        if isinstance(found, Server):
            self._adopt(found, deadline)
        elif found is not None:
            self.not_shared = found
        if time.monotonic() - child.started > self.timeout:
            child.has_ended(None, "timeout")
        elif self._source is None:
            forget(child.job)

    def _follow(self, child: Child) -> None:
        """While the build child continues, import its factory's libraries into a new server."""
        if child.name != "build" or self._source is None or self._followed:
            return
        if Path(child.job.folder, IMPORTS).exists():
            self._followed = True
            self._following = self._source.branch("follow", child.job)

    def _adopt(self, server: Server, deadline: float) -> None:
        """Fork from this server once it is ready. If this server cannot be used, keep the previous one."""
        if server.becomes_ready(deadline, self._check):
            self._servers.append(server)
            self._source = server
        else:
            self.not_shared = server.refused or "the import did not finish"
            server.close()

    def _may_be_due_to_forking(self, child: Child) -> bool:
        """Return whether a build child may have failed because of shared imports. If so, the next build child runs its
        own imports."""
        how = None if child.end is None else child.end.how
        if how not in ("fault", "target") and (how != "crashed" or child.phase.startswith("try")):
            return False
        self._followed = True
        if self._following is not None:
            self._following.close()
            self._following = None
        if self._source is not None:
            self._source, self.not_shared = None, "the build failed after it"
            return True
        return _FORKED in str(child.answers) and self.use_fresh_interpreters()

    def _check(self) -> None:
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def _listen(self, killed_as: Ending | None = None) -> None:
        """Wait briefly for the messages of servers and children, and handle them."""
        if self._servers:
            select.select(self._servers, [], [], _POLL)
        else:
            time.sleep(_POLL)
        for server in list(self._servers):
            for state in server.messages():
                child = self._running.get(state.number)
                if child is not None and state.status is None:
                    child.pid = state.pid
                elif child is not None:
                    self._end(child, state.status, killed_as)
            if server.gone:
                self._handle_death(server)
        for number, process in list(self._spawned.items()):
            status = process.poll()
            if status is not None:
                kill_group(process.pid)
                del self._spawned[number]
                self._end(self._running[number], status, killed_as)
        for child in self._running.values():
            phase = child.phase
            if phase == WAITS_ALONE:
                self._give_alone(child)
            self._show_phase(child, phase)

    def _end(self, child: Child, status: int | None, killed_as: Ending | None) -> None:
        del self._running[child.number]
        child.has_ended(status, killed_as)
        self.coordinator.ended(child)
        stay = child.stay
        if stay is None:
            return
        self._devices.leave(stay)
        answers = child.answers
        memory = answers.get(DeviceMemory)
        if memory is not None:
            self._memory = memory.peak, memory.total
        if stay.company and ran_out_of_memory(answers):
            self._crowded.append(child)

    def _handle_death(self, server: Server) -> None:
        """Handle a server that died. Its children are dead too, because each child asked the kernel to kill it if the
        server dies."""
        for child in [child for child in self._running.values() if child.origin is server]:
            self._end(child, None, None)
        if server is self._first and self.use_fresh_interpreters():
            return
        self._first = None if server is self._first else self._first
        self._servers.remove(server)
        self._source = None if server is self._source else self._source
        server.close()

    def _close_servers(self) -> None:
        for server in [*filter(None, [self._following]), *reversed(self._servers)]:
            server.close()
        self._servers.clear()
        if self._source is not None:
            self.not_shared = "children are fresh interpreters"
        self._first = self._source = self._following = None

    def _show_phase(self, child: Child, phase: str) -> None:
        if self._progress is not None and child.shown_phase != phase:
            child.shown_phase = phase
            axes = ",".join(f"{axis}={value}" for axis, value in child.job.axes.items())
            where = " ".join(part for part in (child.job.device, axes, child.name) if part)
            self._progress(f"{where}: {phase}")


def _spawn(job: Job, output: int) -> subprocess.Popen[bytes]:
    code = "from graphsafe.capture.child.main import Job, main; main(Job.from_json(sys.argv[1]))"
    return subprocess.Popen(
        own_python.command(code, job.to_json()),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        env=own_python.environment(),
    )
