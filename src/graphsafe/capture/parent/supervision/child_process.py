"""One child process, as its parent sees it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from pathlib import Path

from graphsafe.capture.answers.build import Ended, Ending, TargetFailure
from graphsafe.capture.parent.ranks.divergence import call_text, read_issued
from graphsafe.capture.parent.supervision.device_use import DeviceStay
from graphsafe.capture.parent.supervision.servers import Server
from graphsafe.capture.processes.originals import CHANGED, CHANGES
from graphsafe.capture.processes.stack_dump import StackTop, ask_stack, written_stack
from graphsafe.capture.shared.answers import Answers
from graphsafe.capture.shared.job import FAILED, Job, Phase, read_answers, read_phases
from graphsafe.failure import FAULT

_KEPT_BYTES = 64 * 1024
_PART_OF = {"start": "start", "open the device": "start", "import": "import", "build": "build"}


class Child:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.name = job.child
        self.folder = Path(job.folder)
        self.begin()

    def begin(self) -> None:
        """Start the clock of the child, for its first run or for another run."""
        self.started = self._begun = time.monotonic()
        self.seconds = 0.0
        self.number = 0
        "The child's number among the children of its supervisor."
        self.origin: Server | None = None
        "The server from which the child was forked; None if it is a new interpreter."
        self.stay: DeviceStay | None = None
        self.is_alone = False
        "Whether the parent has told the child that it may measure."
        self.shown_phase = ""
        self.pid: int | None = None
        self.status: int | None = None
        "The exit status, or the negative number of the signal that ended the child."
        self.end: Ended | None = None
        "How the child ended; None while it runs."
        self.why_stopped = ""
        self.stopped_at: float | None = None
        "The time at which the parent began to end the child."
        self._stack: StackTop | None = None
        self._output = bytearray()
        self._reader: threading.Thread | None = None

    @property
    def ended(self) -> Ended:
        """How the child ended. Read this only after the child has ended."""
        assert self.end is not None
        return self.end

    @property
    def answers(self) -> Answers:
        """The answers of the child so far."""
        return read_answers(self.folder, self.name)

    @property
    def phases(self) -> list[Phase]:
        """The child's phases so far."""
        return read_phases(self.folder, self.name)

    @property
    def phase(self) -> str:
        """The child's latest phase."""
        phases = self.phases
        return phases[-1].name if phases else "start"

    @property
    def spent(self) -> dict[str, float]:
        """The seconds of each stage: `start`, the target's `import`, `build` and `steps`, and `wait` for other
        children."""
        # An earlier run under the same name has written to the same file.
        phases = [phase for phase in self.phases if phase.began >= self._begun]
        ends = [*(phase.began for phase in phases[1:]), self.started + self.seconds]
        spent = {"start": max(phases[0].began - self.started, 0.0) if phases else self.seconds}
        for phase, end in zip(phases, ends, strict=False):
            part = _PART_OF.get(phase.name, "wait" if phase.name.startswith("wait ") else "steps")
            spent[part] = spent.get(part, 0.0) + end - phase.began
        return {part: round(seconds, 2) for part, seconds in spent.items()}

    def last_lines(self, count: int = 20) -> list[str]:
        """Return the last lines that the child printed, each cut to 400 characters."""
        lines = bytes(self._output).decode(errors="replace").replace("\r", "\n").splitlines()
        return [line[:400] for line in lines if line.strip()][-count:]

    def _end_of(self, killed_as: Ending | None) -> Ended:
        """Return how the child ended. The answer comes from the child's own report. If there is none, it comes from
        what the parent did (timeout or stop), and if the parent did nothing, from the exit status."""
        # A child that cannot write its answer, for example because the disk is full, prints a line instead.
        answers, complaint = self.answers, self._printed(FAULT) if self.status == FAILED else None
        end, failure = answers.get(Ended), answers.get(TargetFailure)
        if end is not None and end.how == "fault":
            return end
        if complaint is not None:
            return Ended("fault", complaint)
        if failure is not None:
            return Ended("target", failure.line)
        if end is not None:
            return end
        if killed_as == "timeout":
            return Ended("timeout", f"not finished after {self.seconds:.0f} s (see --timeout), {self._where()}")
        if killed_as == "stopped":
            return Ended("stopped", f"ended because {self.why_stopped}, {self._where()}")
        return Ended("crashed", self._why_it_died(), self._top().line)

    def _why_it_died(self) -> str:
        if self.status is not None and self.status < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-self.status).name}, {self._where()}"
        if self.status == CHANGED and (changes := self._printed(CHANGES)) is not None:
            return f"{changes}, and nothing more can be done in it, {self._where()}"
        return f"the process exited with status {self.status}, as after os._exit, {self._where()}"

    def ask_for_its_stack(self) -> None:
        """Ask the child to write its stack. Call this before the child is ended."""
        if self.pid is not None and self.end is None:
            self._stack = ask_stack(self.pid, self.folder, self.name)

    def _top(self) -> StackTop:
        return self._stack or written_stack(self.folder, self.name)

    def _where(self) -> str:
        top = self._top()
        where = f"in phase: {self.phase}{top.text()}"
        issued = read_issued(self.folder, self.name) if top.line is None else []
        return f"{where}, after {call_text(issued[-1])}" if issued else where

    def _printed(self, beginning: str) -> str | None:
        """Return the last line that the child printed if it begins with `beginning`, else None."""
        return next((line for line in self.last_lines(1) if line.startswith(beginning)), None)

    def drain(self, descriptor: int) -> None:
        """Read a pipe in a thread. Keep only the end of the output, because a target may print any amount."""
        self._reader = threading.Thread(target=self._read, args=(descriptor,), daemon=True)
        self._reader.start()

    def _read(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                self._output += chunk
                if len(self._output) > 2 * _KEPT_BYTES:
                    del self._output[:-_KEPT_BYTES]

    def has_ended(self, status: int | None, killed_as: Ending | None) -> None:
        """Record that the process is gone. `killed_as` is the ending to record if graphsafe killed it."""
        self.status = status
        self.seconds = time.monotonic() - self.started
        if self._reader is not None:
            # A process that has left the child's group may keep the pipe open forever.
            self._reader.join(timeout=1.0)
        self.end = self._end_of(killed_as if status is None or status == -signal.SIGKILL else None)
