"""One child process, as its parent sees it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from pathlib import Path
from typing import Literal

from graphsafe.capture.job import FAILED, Job, read_phases, read_result
from graphsafe.capture.processes.stack_dump import StackTop, ask_stack, written_stack
from graphsafe.capture.ranks.divergence import call_text, read_issued
from graphsafe.failure import FAULT

Ending = Literal["done", "crashed", "timeout", "stopped", "failed"]
"`failed`: graphsafe's own code did, in the child."

_KEPT_BYTES = 64 * 1024
_PART_OF = {"start": "start", "open the device": "start", "import": "import", "build": "build"}


class Child:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.begin()

    def begin(self) -> None:
        """For the first time, or once more from the start."""
        self.started = self._begun = time.monotonic()
        self.seconds = 0.0
        self.pid: int | None = None
        self.status: int | None = None
        "The exit status, or minus the signal that ended it."
        self.ending: Ending | None = None
        self.why_stopped = ""
        self.stopped_at: float | None = None
        "When the parent began to end it."
        self._stack: StackTop | None = None
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
        phases = read_phases(Path(self.job.folder), self.name)
        return phases[-1].name if phases else "start"

    @property
    def spent(self) -> dict[str, float]:
        """Seconds until it had `start`ed, on the target's `import`, `build` and `steps`, and to `wait` for siblings."""
        # What ran under the same name before wrote into the same file.
        phases = [phase for phase in read_phases(Path(self.job.folder), self.name) if phase.began >= self._begun]
        ends = [*(phase.began for phase in phases[1:]), self.started + self.seconds]
        spent = {"start": max(phases[0].began - self.started, 0.0) if phases else self.seconds}
        for phase, end in zip(phases, ends, strict=False):
            part = _PART_OF.get(phase.name, "wait" if phase.name.startswith("wait ") else "steps")
            spent[part] = spent.get(part, 0.0) + end - phase.began
        return {part: round(seconds, 2) for part, seconds in spent.items()}

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of what it printed, each line cut to 400 characters."""
        lines = bytes(self._output).decode(errors="replace").replace("\r", "\n").splitlines()
        return [line[:400] for line in lines if line.strip()][-count:]

    def how_it_ended(self) -> str:
        """In words, for a child that did not finish."""
        if self.ending == "failed":
            return str(self.result.get("internal_error") or self._complaint())
        if self.ending == "timeout":
            return f"no end after {self.seconds:.0f} s, {self._where()}"
        if self.ending == "stopped":
            return f"ended because {self.why_stopped}, {self._where()}"
        if self.status is not None and self.status < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-self.status).name}, {self._where()}"
        return f"the process exited with status {self.status}, {self._where()}"

    def ask_for_its_stack(self) -> None:
        """Before it is ended."""
        if self.pid is not None and self.ending is None:
            self._stack = ask_stack(self.pid, Path(self.job.folder), self.name)

    def _where(self) -> str:
        folder = Path(self.job.folder)
        top = self._stack or written_stack(folder, self.name)
        where = f"in phase: {self.phase}{top.text()}"
        issued = read_issued(folder, self.name) if top.line is None else []
        return f"{where}, after {call_text(issued[-1])}" if issued else where

    def _complaint(self) -> str | None:
        """What a child prints where it cannot write its result: a full disk."""
        return next((line for line in self.last_lines(1) if line.startswith(FAULT)), None)

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

    def ended(self, status: int | None, killed_as: Ending | None) -> None:
        """Its process is gone. `killed_as`: what to call that if it was we who killed it."""
        self.status = status
        self.seconds = time.monotonic() - self.started
        self.drained()
        result = self.result
        killed = killed_as is not None and (status is None or status == -signal.SIGKILL)
        if "internal_error" in result or (status == FAILED and self._complaint() is not None):
            self.ending = "failed"
        else:
            self.ending = "done" if "done" in result else killed_as if killed and killed_as else "crashed"
