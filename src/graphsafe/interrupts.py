"""Handles signals that ask a command to end, and delays them until the command can end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def hold_interrupts() -> None:
    """Delay Ctrl-C until `release_interrupts` is called, because the code that handles it is not loaded yet."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))


def release_interrupts() -> None:
    """Stop delaying Ctrl-C. If it was pressed meanwhile, it is handled at once."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))


class Ended:
    """The signal that asked the command to end, and whether a signal may interrupt the current work."""

    def __init__(self) -> None:
        self.by: int | None = None
        self._breaks_off = False

    @contextmanager
    def breaks_off(self) -> Iterator[None]:
        """Let a signal raise KeyboardInterrupt inside the block. If a signal came before the block, raise
        KeyboardInterrupt at once."""
        self._breaks_off = True
        try:
            if self.by is not None:
                raise KeyboardInterrupt
            yield
        finally:
            self._breaks_off = False

    def come(self, number: int, _: object) -> None:
        if self.by is None:
            self.by = number
            if self._breaks_off:
                raise KeyboardInterrupt


@contextmanager
def ended_by_signals() -> Iterator[Ended]:
    """Record the first SIGTERM, SIGHUP or Ctrl-C, and ignore later ones, so that the report is written.

    Work inside this block is not interrupted, except inside an inner block `Ended.breaks_off`.
    """
    ended = Ended()
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {getattr(signal, name): signal.getsignal(getattr(signal, name)) for name in names}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, ended.come)
    try:
        release_interrupts()
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
