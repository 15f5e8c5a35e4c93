"""Passes signals on to the program, so that it gets each signal as often as without graphsafe.

Ctrl-C, `kill -- -GROUP` and systemd send a signal both to graphsafe and to the program. `kill PID` sends it to
graphsafe alone. A signal does not show to which processes it was sent. So another process, the witness, runs beside the
program and records signals. If the witness gets a signal too, all processes have got it. Otherwise graphsafe passes it
on.

If the program had its own process group, it would never get a signal twice. But then the program would keep running
when graphsafe's group gets SIGKILL, and it would lose the terminal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import IO, Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_TOGETHER = 0.3
"Two processes may receive the same signal up to this many seconds apart."
_WITNESS = """
import os, signal, sys
numbers = [int(text) for text in sys.argv[1:]]
os.set_blocking(1, False)
signal.set_wakeup_fd(1)
for number in numbers:
    signal.signal(number, lambda number, frame: None)
signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
sys.stdin.read()
"""
"""The code of the witness. Until graphsafe ends, it writes one byte for each signal that it receives: the number of the
signal."""


class _Witness:
    """A process that records each signal with its time."""

    def __init__(self, numbers: list[int]) -> None:
        command = [sys.executable, "-I", "-S", "-c", _WITNESS, *map(str, numbers)]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        # Signals are blocked until the witness can handle them, because an early signal would end it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._heard: dict[int, float] = {}
        assert self._process.stdout is not None
        Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()

    def _listen(self, output: IO[bytes]) -> None:
        while numbers := os.read(output.fileno(), 64):
            self._heard.update(dict.fromkeys(numbers, time.monotonic()))

    def hears(self, number: int) -> bool:
        """Return whether the witness has received this signal at about the same time as graphsafe."""
        now = time.monotonic()
        while time.monotonic() < now + _TOGETHER:
            if self._heard.get(number, 0.0) > now - _TOGETHER:
                return True
            time.sleep(0.01)
        return False

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def passing_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Yield a function that takes the started program.

    From its call on, signals that are sent to graphsafe alone are passed on to the program.
    """
    numbers = [int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name)]
    # Windows has neither process groups nor signal masks. There, Ctrl-C reaches all processes of a console.
    witness = _Witness(numbers) if hasattr(signal, "pthread_sigmask") else None
    before: dict[int, Any] = {}

    def begin(program: subprocess.Popen[bytes]) -> None:
        def come(number: int, _: object) -> None:
            if witness is not None and not witness.hears(number):
                program.send_signal(number)

        before.update({number: signal.signal(number, come) for number in numbers})

    try:
        yield begin
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if witness is not None:
            witness.leave()
