"""Computes how long GPUs are idle, from readings of NVIDIA's management library (NVML), which is called through ctypes.

Only the parent process of a run loads NVML; the processes of the program do not. NVML creates no CUDA context.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from graphsafe.failure import in_one_line
from graphsafe.report.ledger.model import Idle

_NAME = "libnvidia-ml.so.1"
_UUID_BYTES = 96


class NvmlError(Exception):
    """Raised if NVML cannot be used. The message says why."""


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Nvml:
    """An NVML session, from the creation of this object until `close`. `library` has the C functions of NVML."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._call("nvmlInit_v2")
        count = ctypes.c_uint(0)
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self._gpus = {}
        for index in range(count.value):
            with contextlib.suppress(NvmlError):  # a container may not be allowed to use this GPU
                gpu, uuid = ctypes.c_void_p(), ctypes.create_string_buffer(_UUID_BYTES)
                self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(gpu))
                self._call("nvmlDeviceGetUUID", gpu, uuid, ctypes.c_uint(_UUID_BYTES))
                self._gpus[uuid.value.decode().removeprefix("GPU-")] = gpu

    @classmethod
    def load(cls) -> Nvml:
        try:
            library = ctypes.CDLL(_NAME)
        except OSError:
            raise NvmlError(f"{_NAME} cannot be loaded") from None
        return cls(library)

    def busy(self) -> dict[str, int]:
        """Return, by UUID, the percentage of each GPU's last window in which the GPU ran a kernel.

        A window lasts between a sixth of a second and a second. A GPU that does not report this (in MIG mode) is left
        out.
        """
        found = {}
        for uuid, gpu in self._gpus.items():
            utilization = _Utilization()
            if not self._library.nvmlDeviceGetUtilizationRates(gpu, ctypes.byref(utilization)):
                found[uuid] = int(utilization.gpu)
        return found

    def close(self) -> None:
        self._library.nvmlShutdown()

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise NvmlError(f"{name} of NVML failed with error {code}")


_PAUSE = 0.25
"The number of seconds between two readings."
_WINDOW = 1_000_000_000
"The longest window of NVML in nanoseconds. A reading describes the window before it."
_FEWEST = 8
"A share is computed from at least this many readings of a GPU."
_MOST = 65_536
"When there are this many readings, every other one is dropped, and the pause is doubled."
_PATIENCE = 0.5
"After the program has ended, graphsafe waits at most this many seconds for the last reading."


@dataclass(slots=True)
class Readings:
    """The readings: times in nanoseconds since 1970, each with the busy percentage of each GPU by UUID."""

    taken: list[tuple[int, Mapping[str, int]]] = field(default_factory=list)
    problem: str | None = None
    "Why there are no readings, or None."

    def idle(self, gpus: Collection[str], first: int, last: int) -> Idle | None:
        """Return the share of the time from `first` to `last` in which the GPUs were idle, as an average over the GPUs.

        Return None if a GPU has too few readings. Windows that begin before `first` are left out.
        """
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
    """Read NVML in a thread until the block ends. The thread also loads NVML, which may take a second."""
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
