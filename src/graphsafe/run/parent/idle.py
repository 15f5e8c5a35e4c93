"""The share of time in which GPUs idle, as NVML reports it.

Only the parent of a run asks NVML, not the program's processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from graphsafe.failure import in_one_line
from graphsafe.report.ledger.model import Idle
from graphsafe.run.parent.nvml import Nvml, NvmlError

_PAUSE = 0.25
"Number of seconds between two readings."
_WINDOW = 1_000_000_000
"The longest window of NVML, in nanoseconds. A reading describes a window that ends with it."
_FEWEST = 8
"The smallest number of readings of a GPU from which a share is computed."
_MOST = 65_536
"The largest number of readings that are kept. At this number every other reading is dropped and the pause is doubled."
_PATIENCE = 0.5
"Number of seconds to wait for the last reading, when the program has ended."


@dataclass(slots=True)
class Readings:
    """The readings: times in nanoseconds since 1970, each with the busy percentage of each GPU by UUID."""

    taken: list[tuple[int, Mapping[str, int]]] = field(default_factory=list)
    problem: str | None = None
    "The reason why there are no readings, or None."

    def idle(self, gpus: Collection[str], first: int, last: int) -> Idle | None:
        """Return the share of time between two moments in which GPUs idled, averaged over GPUs; None if a GPU has too
        few readings. Windows that begin before the first moment do not count."""
        within = [(moment, busy) for moment, busy in list(self.taken) if first + _WINDOW <= moment <= last]
        shares = []
        for gpu in gpus:
            percents = [busy[gpu] for moment, busy in within if gpu in busy]
            if len(percents) < _FEWEST:
                return None
            shares.append(1 - sum(percents) / len(percents) / 100)
        return Idle(round(sum(shares) / len(shares), 3), round((last - first) / 1e9, 3)) if shares else None


@contextmanager
def sampling() -> Iterator[Readings]:
    """Read NVML in a thread until the block ends. The thread also loads it, which may take a second."""
    readings, ended = Readings(), threading.Event()
    thread = threading.Thread(target=_sample, args=(readings, ended), name="nvml", daemon=True)
    thread.start()
    try:
        yield readings
    finally:
        ended.set()
        thread.join(_PATIENCE)


def _sample(readings: Readings, ended: threading.Event) -> None:
    pause = _PAUSE
    try:
        with closing(Nvml.load()) as nvml:
            while not ended.wait(pause):
                readings.taken.append((time.time_ns(), nvml.busy()))
                if len(readings.taken) == _MOST:
                    del readings.taken[::2]
                    pause *= 2
    except NvmlError as error:
        readings.problem = str(error)
    except Exception as error:  # an error of graphsafe must not stop the run
        readings.problem = in_one_line(error)
