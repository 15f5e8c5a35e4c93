"""NVIDIA's management library (NVML), through ctypes, which tells how busy each GPU of the machine is.

NVML creates no CUDA context, and only the process that asks loads the library.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

_NAME = "libnvidia-ml.so.1"
_UUID_BYTES = 96


class NvmlError(Exception):
    """Raised if NVML cannot be used; the text says why."""


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Nvml:
    """The library, from creation until `close`. `library` has the C functions."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._call("nvmlInit_v2")
        count = ctypes.c_uint(0)
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self._gpus = {}
        for index in range(count.value):
            with contextlib.suppress(NvmlError):  # a container may not be allowed to use it
                gpu = self._gpu(index)
                self._gpus[self._uuid(gpu)] = gpu

    @classmethod
    def load(cls) -> Nvml:
        try:
            library = ctypes.CDLL(_NAME)
        except OSError:
            raise NvmlError(f"{_NAME} is not there") from None
        return cls(library)

    def busy(self) -> dict[str, int]:
        """Return for each GPU, by UUID, the percentage of its last window (a sixth of a second to a second) in which a
        kernel ran. A GPU that does not report this (in MIG mode) is left out."""
        found = {}
        for uuid, gpu in self._gpus.items():
            utilization = _Utilization()
            if not self._library.nvmlDeviceGetUtilizationRates(gpu, ctypes.byref(utilization)):
                found[uuid] = int(utilization.gpu)
        return found

    def close(self) -> None:
        self._library.nvmlShutdown()

    def _gpu(self, index: int) -> ctypes.c_void_p:
        gpu = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(gpu))
        return gpu

    def _uuid(self, gpu: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(_UUID_BYTES)
        self._call("nvmlDeviceGetUUID", gpu, text, ctypes.c_uint(_UUID_BYTES))
        return text.value.decode().removeprefix("GPU-")

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise NvmlError(f"{name} of NVML failed with error {code}")
