"""Reads the nodes of a captured graph from the driver, and compares two captures of one step.

The driver's own library is called through ctypes. Torch has loaded this library, so graphsafe needs no other package.
Reading the names of kernels requires CUDA 12.3, and reading the layout of their arguments requires CUDA 12.4. With an
older driver, `NotComparable` is raised.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import itemgetter
from typing import Any, Literal

import torch

from graphsafe.capture.device.cuda.compiler_import import memory_segments
from graphsafe.capture.device.cuda.runtime import NODE_KINDS
from graphsafe.capture.device.cuda.unused_places import without_unused_places
from graphsafe.capture.device.protocol import NotComparable
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.twin import Difference

_WORD = 8
"Number of bytes that are compared as one word. These bytes hold one address, or one or two scalars."
_NEWEST_CALLS = (
    "cuGraphKernelNodeGetParams_v2 cuKernelGetName cuFuncGetName cuKernelGetParamInfo cuFuncGetParamInfo "
    "cuStreamGetCaptureInfo_v2 cuGraphGetEdges_v2"
).split()
_HOST_MEMORY = 1
"`CU_MEMORYTYPE_HOST` of cuda.h."


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of a graph. `launch` is the amount of work (grid, block, bytes). `words` are the arguments, in words of
    eight bytes."""

    kind: str
    name: str
    launch: tuple[int, ...] = ()
    words: tuple[int, ...] = ()
    opaque: bool = False
    "Whether the driver does not show the arguments."
    pointers: tuple[int, ...] = ()
    "Words that are a whole argument or an address of a copy, and not a part of a larger argument."


Pool = tuple[int, ...]
"The name of a memory pool in the allocator: two numbers."
SHARED: Pool = (0, 0)
"The allocator's default pool, which belongs to no graph."
What = Literal["count", "operation", "extent", "scalar", "address"]
Place = tuple[tuple[CallSite, ...], "Span | None", str]
"The user's frames at a node, the expression that was running, and the node's operation."


@dataclass(frozen=True, slots=True)
class Segments:
    """The allocator's segments at one moment. An address belongs to the pool of its segment."""

    spans: tuple[tuple[int, int, Pool], ...]
    "The first address of each segment, the address after its end, and its pool, in the order of addresses."

    @staticmethod
    def now() -> Segments:
        return Segments.of(memory_segments())

    @staticmethod
    def of(segments: Iterable[Mapping[str, Any]]) -> Segments:
        """Return the segments of a snapshot of the allocator."""
        spans = ((int(one["address"]), int(one["total_size"]), one["segment_pool_id"]) for one in segments)
        return Segments(tuple(sorted((begin, begin + size, tuple(pool)) for begin, size, pool in spans)))

    def size(self, pool: Pool) -> int:
        """Return the number of bytes in a pool."""
        return sum(end - begin for begin, end, owner in self.spans if owner == pool)

    def pool(self, address: int) -> Pool | None:
        at = bisect_right(self.spans, address, key=itemgetter(0)) - 1
        return self.spans[at][2] if at >= 0 and address < self.spans[at][1] else None


def differences(
    first: Sequence[GraphNode],
    second: Sequence[GraphNode],
    pools: tuple[Pool, Pool],
    segments: Segments,
    places: Sequence[Place | None] = (),
) -> tuple[Difference, ...]:
    """Return all differences in the order of the graph. `places` are the known places of the nodes of `second`.

    A kernel over lists of tensors has hundreds of words that nothing writes, and that differ by chance. A limit on the
    number of differences would hide the words that come after such words.

    An address in the first graph's pool may become any address in the second graph's pool, because each capture
    allocates its own results. An address outside of the pools has to stay the same.
    """
    found: list[Difference] = []
    if len(first) != len(second):
        op = _first_other(first, second)
        found.append(_difference(op, "count", second, f"{len(first)} nodes", f"{len(second)} nodes", places))
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if (one.kind, one.name) != (other.kind, other.name):
            found.append(
                _difference(number, "operation", second, one.name or one.kind, other.name or other.kind, places)
            )
            break  # later nodes no longer correspond to each other, so all would differ
        if one.launch != other.launch:
            found.append(_difference(number, "extent", second, str(one.launch), str(other.launch), places))
        for at, (before, after) in enumerate(zip(one.words, other.words, strict=False)):
            what = _changed(before, after, pools, segments)
            if what is not None:
                said = _numbers(before, after) if what == "scalar" else _memories(before, after, pools, segments)
                reported = _difference(number, what, second, *said, places)
                found.append(replace(reported, argument=at))
    return tuple(found)


def _changed(
    before: int, after: int, pools: tuple[Pool, Pool], segments: Segments
) -> Literal["scalar", "address"] | None:
    if before == after:
        return None
    held, holds = segments.pool(before), segments.pool(after)
    if held is None or holds is None:
        return "scalar"
    return None if (held, holds) == pools else "address"


def _first_other(first: Sequence[GraphNode], second: Sequence[GraphNode]) -> int:
    for number, (one, other) in enumerate(zip_longest(first, second)):
        if one is None or other is None or (one.kind, one.name) != (other.kind, other.name):
            return number
    return 0


def _difference(
    number: int, what: What, nodes: Sequence[GraphNode], before: str, after: str, places: Sequence[Place | None]
) -> Difference:
    name = nodes[number].name if number < len(nodes) else "the end of the graph"
    place = places[number] if number < len(places) else None
    if place is None:
        return Difference(number, what, name, before, after)
    frames, span, op = place
    return Difference(number, what, op or name, before, after, frames, span)


def _memories(before: int, after: int, pools: tuple[Pool, Pool], segments: Segments) -> tuple[str, str]:
    """Describe two addresses by the memory that contains them, because addresses differ between processes."""

    def memory(address: int, own: Pool) -> str:
        pool = segments.pool(address)
        return "memory of the graph" if pool == own else "memory of another graph" if any(pool or ()) else "memory"

    one, other = memory(before, pools[0]), memory(after, pools[1])
    return one, f"other {other}" if one == other else other


def _numbers(before: int, after: int) -> tuple[str, str]:
    """Write two words in a readable form: an integer or a float. If only one half of the word differs, only that half
    is written."""
    halves = [(word & 0xFFFF_FFFF, word >> 32) for word in (before, after)]
    differing = [half for half in (0, 1) if halves[0][half] != halves[1][half]]
    if len(differing) == 2:
        return _double(before), _double(after)
    return _single(halves[0][differing[0]]), _single(halves[1][differing[0]])


def _single(bits: int) -> str:
    number = struct.unpack("<f", struct.pack("<I", bits))[0]
    return f"{number:.6g}" if 1e-20 < abs(number) < 1e20 else str(bits)


def _double(bits: int) -> str:
    number = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return f"{number:.6g}" if 1e-100 < abs(number) < 1e100 else str(bits)


class _KernelParameters(ctypes.Structure):
    """`CUDA_KERNEL_NODE_PARAMS_v2` of cuda.h."""

    _fields_ = [
        ("function", c_void_p),
        *((name, c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("parameters", POINTER(c_void_p)),
        ("extra", POINTER(c_void_p)),
        ("kernel", c_void_p),
        ("context", c_void_p),
    ]


class _CopySide(ctypes.Structure):
    """One half of `CUDA_MEMCPY3D`: the source or the destination of a copy."""

    _fields_ = [
        *((name, c_size_t) for name in ("x", "y", "z", "lod")),
        ("memory_type", c_int),
        *((name, c_void_p) for name in ("host", "device", "array", "reserved")),
        *((name, c_size_t) for name in ("pitch", "height")),
    ]


class _CopyParameters(ctypes.Structure):
    """`CUDA_MEMCPY3D` of cuda.h."""

    _fields_ = [
        ("source", _CopySide),
        ("target", _CopySide),
        *((name, c_size_t) for name in ("width", "height", "depth")),
    ]


class _FillParameters(ctypes.Structure):
    """`CUDA_MEMSET_NODE_PARAMS` of cuda.h."""

    _fields_ = [
        ("target", c_void_p),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("element_size", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    ]


@functools.cache
def _driver() -> ctypes.CDLL:
    driver = ctypes.CDLL("libcuda.so.1")
    for name in _NEWEST_CALLS:
        if not hasattr(driver, name):
            raise NotComparable(f"the driver lacks {name}; CUDA 12.4 has it")
    return driver


def graph_nodes(raw_graph: int) -> tuple[GraphNode, ...]:
    """Return the nodes of a `cudaGraph_t`. A child graph is replaced by its nodes. Raises NotComparable."""
    return tuple(found for handle in _handles(raw_graph) for found in _node(_driver(), c_void_p(handle)))


def _count(raw_graph: int) -> int:
    count = c_size_t(0)
    _ask(_driver().cuGraphGetNodes(c_void_p(raw_graph), None, byref(count)), "cuGraphGetNodes")
    return count.value


def _handles(raw_graph: int) -> list[int]:
    count = _count(raw_graph)
    if not count:
        return []
    handles = (c_void_p * count)()
    _ask(_driver().cuGraphGetNodes(c_void_p(raw_graph), handles, byref(c_size_t(count))), "cuGraphGetNodes")
    return list(handles)


def _node(driver: ctypes.CDLL, node: c_void_p) -> list[GraphNode]:
    number = c_int(-1)
    _ask(driver.cuGraphNodeGetType(node, byref(number)), "cuGraphNodeGetType")
    kind = NODE_KINDS.get(number.value, "other")
    if kind == "kernel":
        return [_kernel(driver, node)]
    if kind == "memcpy":
        copy = _CopyParameters()
        _ask(driver.cuGraphMemcpyNodeGetParams(node, byref(copy)), "cuGraphMemcpyNodeGetParams")
        ends = [_address(side) + side.x + side.y * side.pitch for side in (copy.source, copy.target)]
        return [GraphNode(kind, "memcpy", (copy.width, copy.height, copy.depth), tuple(ends), pointers=tuple(ends))]
    if kind == "memset":
        fill = _FillParameters()
        _ask(driver.cuGraphMemsetNodeGetParams(node, byref(fill)), "cuGraphMemsetNodeGetParams")
        size = (fill.element_size, fill.width, fill.height)
        target = fill.target or 0
        return [GraphNode(kind, "memset", size, (target, fill.value), pointers=(target,))]
    if kind == "graph":
        child = c_void_p()
        _ask(driver.cuGraphChildGraphNodeGetGraph(node, byref(child)), "cuGraphChildGraphNodeGetGraph")
        return list(graph_nodes(child.value or 0))
    return [GraphNode(kind, kind)]


def _address(side: _CopySide) -> int:
    return int((side.host if side.memory_type == _HOST_MEMORY else side.device) or 0)


def _kernel(driver: ctypes.CDLL, node: c_void_p) -> GraphNode:
    given = _KernelParameters()
    _ask(driver.cuGraphKernelNodeGetParams_v2(node, byref(given)), "cuGraphKernelNodeGetParams")
    prefix, handle = ("cuFunc", given.function) if given.function else ("cuKernel", given.kernel)
    name = c_char_p()
    _ask(getattr(driver, f"{prefix}GetName")(byref(name), c_void_p(handle)), f"{prefix}GetName")
    launch = tuple(
        getattr(given, part) for part in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")
    )
    text = (name.value or b"").decode(errors="replace")
    if not given.parameters:
        return GraphNode("kernel", text, launch, opaque=True)
    words: list[int] = []
    pointers: list[int] = []
    for index, size in enumerate(_sizes(prefix, int(handle))):
        data = without_unused_places(text, launch[:3], ctypes.string_at(given.parameters[index], size))
        found = [int.from_bytes(data[at : at + _WORD], "little") for at in range(0, size, _WORD)]
        words += found
        pointers += found if size == _WORD else []
    return GraphNode("kernel", text, launch, tuple(words), pointers=tuple(pointers))


@functools.cache
def _sizes(prefix: str, handle: int) -> tuple[int, ...]:
    """Return the size in bytes of each argument of the kernel."""
    ask = getattr(_driver(), f"{prefix}GetParamInfo")
    sizes: list[int] = []
    offset, size = c_size_t(0), c_size_t(0)
    while ask(c_void_p(handle), c_size_t(len(sizes)), byref(offset), byref(size)) == 0:
        sizes.append(size.value)
    return tuple(sizes)


def graph_edges(raw_graph: int) -> tuple[tuple[int, int], ...]:
    """Return the edges of a `cudaGraph_t` as pairs of node numbers, in the order of `cuGraphGetNodes`. Raises
    NotComparable."""
    numbers = {handle: number for number, handle in enumerate(_handles(raw_graph))}
    # The second version of the call also returns the kind of each edge (eight bytes). The first version refuses graphs
    # whose edges have kinds.
    ask = _driver().cuGraphGetEdges_v2
    edges = c_size_t(0)
    _ask(ask(c_void_p(raw_graph), None, None, None, byref(edges)), "cuGraphGetEdges")
    if not edges.value:
        return ()
    before, after = (c_void_p * edges.value)(), (c_void_p * edges.value)()
    kinds = (ctypes.c_ulonglong * edges.value)()
    _ask(ask(c_void_p(raw_graph), before, after, kinds, byref(edges)), "cuGraphGetEdges")
    return tuple((numbers[one], numbers[other]) for one, other in zip(before, after, strict=True))


def graph_in_capture(stream: torch.cuda.Stream) -> int | None:
    """Return the `cudaGraph_t` of the capture that is under way on a stream, or None."""
    driver = _driver()
    status, number, graph = c_int(0), ctypes.c_ulonglong(0), c_void_p()
    asked = driver.cuStreamGetCaptureInfo_v2(
        c_void_p(stream.cuda_stream), byref(status), byref(number), byref(graph), None, None
    )
    _ask(asked, "cuStreamGetCaptureInfo")
    return graph.value


def count_in_capture(stream: torch.cuda.Stream) -> int:
    """Return the number of nodes so far in the capture that is under way on a stream."""
    graph = graph_in_capture(stream)
    return _count(graph) if graph else 0


def _ask(status: int, name: str) -> None:
    if status:
        raise NotComparable(f"{name} failed with CUDA error {status}")
