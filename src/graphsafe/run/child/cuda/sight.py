"""Watches the graphs of a real GPU.

Nodes are read from the driver just before a capture ends, because torch destroys the captured graph as soon as the
graph is instantiated. Then the addresses among the arguments of kernels and copies are matched with the tensors that
the program knows.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import re
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import torch

from graphsafe.capture.answers.build import Platform
from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.bits import layout_text
from graphsafe.capture.device.cuda.nodes import (
    SHARED,
    GraphNode,
    Pool,
    Segments,
    count_in_capture,
    graph_in_capture,
    graph_nodes,
)
from graphsafe.capture.device.cuda.runtime import driver_version
from graphsafe.capture.device.protocol import NotComparable
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite, grouped
from graphsafe.run.child.calls import CalledSteps
from graphsafe.run.child.cuda.casts import AutocastCache
from graphsafe.run.child.cuda.memory import (
    active_addresses,
    borrowed,
    holders_of,
    is_within,
    makers,
    pool_lines,
    record_stacks,
)
from graphsafe.run.child.cuda.order import CudaOrder
from graphsafe.run.child.cuda.pinned import PinnedReads
from graphsafe.run.child.cuda.waits import current_stream, watch_waits
from graphsafe.run.child.guilty import raised_by
from graphsafe.run.child.names import Name, addresses_of, storage_number
from graphsafe.run.child.refills import Unordered
from graphsafe.run.child.sight import Contents, Sight, Touch
from graphsafe.run.child.steps import Step, Steps
from graphsafe.run.child.waits import Waits
from graphsafe.run.facts import Calls, DeviceFacts, PoolLine

_NOT_READ = "the driver did not report them"
_COLLECTIVE = re.compile("nccl|all_?reduce|cross_device_reduce|all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE)
"Matches the names of kernels that communicate between GPUs: the kernels of NCCL and of inference engines."
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class CudaSight(Sight):
    evidence: Literal["measured", "predicted"] = "measured"

    def __init__(self, stacks: bool, devices: Collection[str] = ()) -> None:
        """Watch these devices, or all devices if none is given. With `stacks`, record the line of each allocation."""
        self.graph = torch.cuda.CUDAGraph
        self._stacks = stacks
        self._devices = devices
        if stacks:
            record_stacks()
        self._nodes: Sequence[GraphNode] = ()
        self._problem: str | None = None
        self._calls: CalledSteps | None = None
        self._step: Step | None = None
        self._order: CudaOrder | None = None
        self._autocast = AutocastCache()
        self._entered = contextlib.ExitStack()
        self._held: Sequence[torch.Tensor] = ()
        """The tensors that had a name when the capture began.

        They are kept because captured code may drop memory that the graph still reads.
        """
        self._before: frozenset[int] = frozenset()
        "The addresses of the pool's blocks at the beginning of the last capture into it."
        self._pooled: dict[Pool, list[tuple[weakref.ref[Any], Sequence[int]]]] = {}
        "Pool -> its graphs, each with the addresses inside the pool that occur in the arguments of its nodes, sorted."
        self._unordered: dict[CallSite, Unordered] = {}
        "The line of a write to pinned memory -> the calls of the write, the calls of the replay, and the storage."
        self._gpus: dict[str, None] = {}
        self._captured_on: dict[str, None] = {}
        self._pools: dict[Pool, int] = {}
        "Pool -> its size in bytes at the end of the last capture into it."

    def device(self) -> str:
        return f"cuda:{torch.cuda.current_device()}"

    def stream(self) -> int:
        return int(torch.cuda.current_stream().cuda_stream)

    def begun(self, pool: Any, names: Mapping[int, Sequence[Name]]) -> None:
        with torch._C.DisableTorchFunction():
            alive = [tensor for known in names.values() if (tensor := known[0].tensor()) is not None]
            self._held = [tensor.detach() for tensor in alive if tensor.is_cuda and type(tensor) in _PLAIN]
        known = pool is not None and tuple(pool) in self._pooled
        self._before = active_addresses(tuple(pool)) if known else frozenset()
        if self._calls is not None:
            self._calls.begin()

    def ending(self, graph: Any) -> None:
        self._nodes, self._problem = (), None
        self._step = None if self._calls is None else self._calls.end()
        if self._order is not None:
            self._order.settle()
        try:
            raw = graph_in_capture(torch.cuda.current_stream())
            self._nodes = () if raw is None else graph_nodes(raw)
        except (NotComparable, OSError) as error:
            self._problem = f"{_NOT_READ}: {error}"

    def abandoned(self) -> None:
        self._held = []
        if self._calls is not None:
            self._calls.leave()

    def contents(self, graph: Any, names: Mapping[int, Sequence[Name]]) -> Contents:
        """Return the contents of a graph: match the nodes that `ending` has read with the tensors that the program
        knows."""
        nodes, self._nodes = self._nodes, ()
        held, self._held = self._held, ()
        self._gpus |= dict.fromkeys(_current_gpu())
        self._captured_on[self._named_device()] = None
        segments = Segments.now()
        pool: Pool = tuple(graph.pool())
        named = [tensor for known in names.values() for name in known if (tensor := name.tensor()) is not None]
        tensors = [tensor for tensor in (*named, *held) if storage_number(tensor) is not None]
        own = [one for one in tensors if one.is_cuda and segments.pool(one.data_ptr()) == pool]
        lines = makers() if self._stacks else {}
        touches = _touches(nodes, segments, lines, [one for one in tensors if one.is_cuda or one.is_pinned()])
        if self._order is not None:
            numbers = [touch.number for touch in touches if touch.access != "write"]
            known = {number: names[number] for number in numbers if number in names}
            self._order.captured(known, touches, nodes, graph)
        pinned = PinnedReads(nodes, touches, self._wrote) if self._order is None else None
        unread = problem = self._problem
        if any(node.opaque for node in nodes):
            problem = "the arguments of some kernels are packed by the library that launches them"
        there = [one.untyped_storage().data_ptr() in self._before for one in own]
        born = [one for one, was_there in zip(own, there, strict=True) if not was_there]
        earlier = list(self._pooled.get(pool, ()))
        overwriters = _overwriters(earlier, born)
        inside = sorted({word for node in nodes for word in node.words if segments.pool(word) == pool})
        self._pooled.setdefault(pool, []).append((weakref.ref(graph), inside))
        return Contents(
            nodes=None if unread else dict(sorted(Counter(node.kind for node in nodes).items())),
            touches=touches,
            pool_bytes=self._grown(pool, segments),
            outputs=tuple({id(one): one for one in own}.values()),
            overwriters=overwriters,
            owns=functools.partial(_is_used, inside),
            pool=pool,
            borrowed=borrowed(nodes, inside, itertools.compress(own, there), earlier),
            casts=self._autocast.captured(nodes, lambda: _known(_all_tensors()).values()),
            takes=functools.partial(is_within, inside),
            fills=_filled(touches),
            step=self._step,
            collectives=any(_COLLECTIVE.search(node.name) is not None for node in nodes),
            pinned=pinned or None,
            problem=problem,
        )

    def _wrote(self, write: Calls, replay: Calls, storage: int) -> None:
        if write:
            self._unordered.setdefault(write[-1], (write, replay, storage, True))

    def _grown(self, pool: Pool, segments: Segments) -> int:
        """Return the number of bytes by which a pool has grown since the end of the last capture into it."""
        now = segments.size(pool)
        before, self._pools[pool] = self._pools.get(pool, 0), now
        return max(now - before, 0)

    def ordering(self) -> Callable[[Any, Mapping[int, Access]], None] | None:
        order = self._order
        if order is None:
            return None

        def replaying(graph: Any, uses: Mapping[int, Access]) -> None:
            order.replaying([number for number, access in uses.items() if access != "write"], graph)

        return replaying

    def refills(self) -> Sequence[Unordered]:
        return list(self._unordered.values()) if self._order is None else self._order.refills.found()

    def end(self) -> None:
        if self._calls is not None:
            self._calls.close()
        self._autocast.close()
        self._entered.close()

    def watch_steps(self, steps: Steps) -> None:
        if torch.version.hip is None:
            self._calls = CalledSteps(steps, _nodes_so_far)

    def unseen_steps(self) -> str | None:
        return "nodes of HIP graphs are not read" if self._calls is None else self._calls.problem

    def watch_moves(self, moving: Callable[[int], None], lost: Callable[[int], None]) -> None:
        """Call `moving` for each storage that is resized, whether the program resizes the storage or its tensor.

        `lost` is never called. On a GPU, a graph keeps no storage alive. A storage that no tensor uses is freed unless
        the program keeps it. A moved storage has another address.
        """

        def watched(owner: Any, name: str) -> tuple[Any, str, Callable[..., Any]]:
            original = getattr(owner, name)

            def resize(one: Any, *args: Any, **kwargs: Any) -> Any:
                # An error of graphsafe must not stop the program.
                with contextlib.suppress(Exception), torch._C.DisableTorchFunction():
                    if one.is_cuda:
                        number = storage_number(one) if isinstance(one, torch.Tensor) else int(one._cdata)
                        if number is not None:
                            moving(number)
                return original(one, *args, **kwargs)

            resize._torchdynamo_disable = True  # type: ignore[attr-defined]
            return owner, name, resize

        resized = ((torch.UntypedStorage, "resize_"), (torch.Tensor, "resize_"), (torch.Tensor, "resize_as_"))
        self._entered.enter_context(replaced(*(watched(*one) for one in resized)))

    def guilty(self, graph: Any, error: BaseException) -> StepEvent | None:
        self._held = ()
        return raised_by(error)

    def watch_waits(self, waits: Waits) -> None:
        self._order = CudaOrder(current_stream)
        self._entered.enter_context(watch_waits(waits, self._order))

    def is_held(self, storage: int) -> bool:
        """Return True. Graphs keep no storages alive on a GPU, so the program must hold every storage that exists."""
        return True

    def owners(self, addresses: Iterable[int]) -> Mapping[int, str]:
        known = _known(_all_tensors())
        return {address: layout_text(known[at]) for address, at in _within(addresses, known).items()}

    def by_line(self) -> tuple[PoolLine, ...] | None:
        return pool_lines(self._devices) if self._stacks and _has_gpu() else None

    def draw(self) -> str | None:
        """Draw one random number if a failed capture can have broken the generator (before torch 2.12); return the
        error."""
        if torch.torch_version.TorchVersion("2.12") <= torch.__version__:
            return None
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        try:
            offset = generator.get_offset()
            torch.empty(1, device="cuda").uniform_()
            generator.set_offset(offset)
        except (RuntimeError, SystemError) as error:  # SystemError: see gpu_trace.py
            return " ".join(str(error).split())[:300]
        return None

    def facts(self) -> DeviceFacts:
        seen = _has_gpu()
        driver = driver_version() if seen and torch.version.hip is None else None
        device = self._named_device() if seen else None
        machine = Platform(device, driver, str(torch.__version__), torch.version.cuda)
        return DeviceFacts(machine, tuple(self._captured_on), tuple(self._gpus))

    def _named_device(self) -> str:
        return f"{self.device()} {torch.cuda.get_device_name()}"

    def limits(self) -> list[tuple[str, str, str]]:
        if not _has_gpu():
            return [("no-gpu", "this process", "the process has not used a GPU; `--device sim` simulates one")]
        kernels = "a kernel's arguments do not say whether it reads or writes: the access of its memory is `both`"
        eager = "only `--device sim` sees eager operations, the numbers that captured code read, and input sizes"
        races = "only `--device sim` sees the memory of each operation; `graphsafe capture` examines a step on a GPU"
        found = [
            ("unseen", "what kernels do with memory", kernels),
            ("unseen", "old numbers, weights kept elsewhere, copies of pinned memory, shared buffers", eager),
            ("unseen", "races between the operations of a graph", races),
        ]
        pinned = "waits of streams are followed with `--waits`; pinned memory of graphs is compared at some replays"
        unordered = pinned if self._order is None else self._order.problem
        if unordered is not None:
            found.append(("unseen", "the order of refills and replays", unordered))
        if self._order is not None and sys.version_info < (3, 12):
            why = "before Python 3.12, PyTorch's trace (for `--waits`) can turn them into SystemError or crash"
            found.append(("disturbed", "exceptions of calls with new tensors as arguments", why))
        return found


def _has_gpu() -> bool:
    """Return whether this process has used a GPU."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _current_gpu() -> list[str]:
    """Return the UUID of the current GPU without the prefix `GPU-` of NVML, or an empty list if torch does not report
    it."""
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    return [] if uuid is None else [str(uuid).removeprefix("GPU-")]


def _overwriters(
    earlier: Iterable[tuple[weakref.ref[Any], Sequence[int]]], outputs: Sequence[torch.Tensor]
) -> list[tuple[Any, int]]:
    """Return the earlier graphs of a pool that use an address inside a new output.

    The output did not exist when these graphs were captured. The address is therefore in their temporary memory, and
    their replays overwrite the output.
    """
    found = []
    for reference, words in earlier:
        graph = reference()
        for tensor in outputs if graph is not None else ():
            if _is_used(words, tensor):
                found.append((graph, int(tensor.untyped_storage()._cdata)))
    return found


def _is_used(words: Sequence[int], tensor: torch.Tensor) -> bool:
    """Return whether one of the sorted addresses is inside the tensor's storage."""
    return storage_number(tensor) is not None and is_within(words, addresses_of(tensor.untyped_storage()))


def _filled(touches: Iterable[Touch]) -> tuple[range, ...]:
    """Return the memory that a graph's copies write and that nothing in the graph reads."""
    return tuple(addresses_of(touch.storage) for touch in touches if touch.access == "write")


def _nodes_so_far() -> int:
    """Return the number of nodes in the running capture, or 0 if the driver does not report it."""
    try:
        return count_in_capture(torch.cuda.current_stream())
    except (NotComparable, OSError):
        return 0


def _touches(
    nodes: Iterable[GraphNode], segments: Segments, lines: Mapping[int, CallSite], tensors: Sequence[torch.Tensor]
) -> list[Touch]:
    """Return the memory outside of pools to which the nodes' arguments point."""
    words = {word for node in nodes for word in node.words}
    certain = {word for node in nodes for word in node.pointers}
    reads = {node.words[0] for node in nodes if node.kind == "memcpy"}
    writes = {node.words[1] for node in nodes if node.kind == "memcpy"}
    writes |= {node.words[0] for node in nodes if node.kind == "memset"}
    kernels = {word for node in nodes if node.kind == "kernel" for word in node.words}
    known = _known(tensors)
    ends = _within(words, known)
    if any(segments.pool(word) == SHARED for word in words - ends.keys()):
        known = _known(_all_tensors())
        ends = _within(words, known)
    touches = []
    for at, inside in grouped(
        (word for word in ends if segments.pool(word) in (None, SHARED)), ends.__getitem__
    ).items():
        tensor = known[at]
        access: Access = "both"
        if not kernels.intersection(inside):
            read, written = reads.intersection(inside), writes.intersection(inside)
            access = "both" if read and written else "read" if read else "write"
        touches.append(Touch.of(tensor, access, not certain.isdisjoint(inside), lines.get(at)))
    return touches


def _known(tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the tensors by the first address of their storages."""
    strided = (tensor for tensor in tensors if tensor.layout == torch.strided)
    # Reading the memory of a `torch.compile` result raises if a later run has overwritten the result.
    return {tensor.untyped_storage().data_ptr(): tensor for tensor in strided if storage_number(tensor) is not None}


def _within(words: Iterable[int], known: Mapping[int, torch.Tensor]) -> dict[int, int]:
    """Return the words that are addresses inside a known storage, each with the first address of that storage."""
    return holders_of(words, {start: one.untyped_storage().nbytes() for start, one in known.items()})


def _all_tensors() -> list[torch.Tensor]:
    """Return all tensors that Python's garbage collector knows, even if no variable refers to them."""
    kinds = (one for one in gc.get_objects() if issubclass(type(one), torch.Tensor))
    return [one for one in kinds if one.layout == torch.strided and one.is_cuda]
