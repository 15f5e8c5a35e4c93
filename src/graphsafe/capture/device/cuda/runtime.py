"""The few calls of the CUDA runtime that torch does not offer, made through the library that torch has loaded."""

from __future__ import annotations

import ctypes
import functools
from collections import Counter

import torch

NODE_KINDS = dict(enumerate("kernel memcpy memset host graph empty wait-event event-record".split()))
NODE_KINDS |= {10: "mem-alloc", 11: "mem-free", 13: "conditional"}
"The kinds of `cudaGraphNodeType` in driver_types.h."

NOT_CAPTURING, CAPTURING, INVALIDATED = 0, 1, 2
"The values of `cudaStreamCaptureStatus`."


@functools.cache
def _library() -> ctypes.CDLL:
    major = (torch.version.cuda or "").partition(".")[0]
    return ctypes.CDLL(f"libcudart.so.{major}")


def capture_status(stream: torch.cuda.Stream) -> int:
    status = ctypes.c_int(0)
    _library().cudaStreamIsCapturing(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(status))
    return status.value


def node_counts(raw_graph: int) -> dict[str, int]:
    """Count the nodes of a `cudaGraph_t` by kind."""
    library = _library()
    count = ctypes.c_size_t(0)
    if library.cudaGraphGetNodes(ctypes.c_void_p(raw_graph), None, ctypes.byref(count)):
        raise RuntimeError("cudaGraphGetNodes failed")
    # if the runtime is asked for zero nodes, it stores an error that the next kernel launch would raise
    if not count.value:
        return {}
    nodes = (ctypes.c_void_p * count.value)()
    library.cudaGraphGetNodes(ctypes.c_void_p(raw_graph), nodes, ctypes.byref(count))
    counts: Counter[str] = Counter()
    for node in nodes:
        kind = ctypes.c_int(-1)
        library.cudaGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        counts[NODE_KINDS.get(kind.value, "other")] += 1
    return dict(sorted(counts.items()))


def driver_version() -> str | None:
    """Return the newest CUDA version that the driver supports, as `13.0`."""
    version = ctypes.c_int(0)
    if _library().cudaDriverGetVersion(ctypes.byref(version)) or not version.value:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"
