"""The collectives that each rank issues, in order, with their lines: written down before they are issued, since one
that the others do not issue never ends."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsafe.capture.lines.frames import is_user_file, user_frames
from graphsafe.capture.processes.originals import decode, encode, read_text, write_bytes
from graphsafe.files import from_here

if TYPE_CHECKING:
    from types import FrameType

    from graphsafe.capture.job import Channel, Job

OF_GROUPS: Mapping[str, str] = {
    "_allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "all_to_all_single": "all_to_all_single",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather_coalesced",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "barrier": "barrier",
    "broadcast": "broadcast",
    "gather": "gather",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor",
    "scatter": "scatter",
}
"Method of a process group -> the function of torch.distributed that calls it. `send` and `recv` are for two ranks."

FUNCTIONAL = (
    *("all_gather_tensor", "all_gather_into_tensor_coalesced", "all_reduce", "all_reduce_coalesced"),
    *("all_to_all_single", "broadcast", "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced"),
)
"Of `torch.distributed._functional_collectives`, which go past the methods."

OF_OBJECTS = (
    *("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"),
    *("recv_object_list", "send_object_list"),
)
"Functions of torch.distributed that send sizes first, for which the host waits."

_OF_ONE_SIZE = ("all_reduce", "broadcast", "reduce")
"Their tensors have as many elements in every rank."
_WAITS = ("wait", "synchronize", "block_current_stream", "get_future", "is_completed")
_WRAPPERS = ("distributed_c10d.py", "c10d_logger.py", "typing_extensions.py", "_exception_logger.py")
_FILE = "collectives"

CAPTURE = "capture"
"The phase of a child that captures the step."

Call = Mapping[str, Any]
Note = Callable[[str, Any], "Call | None"]


@dataclass
class Issued:
    beside: list[Call] = field(default_factory=list)
    "While the step was captured, on a stream that was not."
    _pending: dict[int, tuple[weakref.ref[Any], Call]] = field(default_factory=dict)
    _lost: list[Call] = field(default_factory=list)

    def expect(self, work: Any, call: Call) -> None:
        """Held weakly: it keeps memory alive."""
        before = self._pending.pop(id(work), None)
        self._lost += [before[1]] if before is not None else []
        self._pending[id(work)] = weakref.ref(work), call
        _tell_waits(type(work), self._waited)

    def _waited(self, work: Any) -> None:
        self._pending.pop(id(work), None)

    def never_waited(self) -> list[Call]:
        """Asynchronous ones since the last time that this was asked."""
        found = [*self._lost, *(call for _, call in self._pending.values())]
        self._lost.clear()
        self._pending.clear()
        return found


@contextmanager
def issued_noted(job: Job, channel: Channel) -> Iterator[Issued]:
    """Note each collective over all ranks that this process issues, in a file that the parent reads."""
    import torch
    import torch.distributed._functional_collectives as functional
    from torch.distributed import ProcessGroup

    file = str(_path(channel.folder, channel.name))
    Path(file).unlink(missing_ok=True)
    issued = Issued()

    def note(name: str, args: Any) -> Call | None:
        frames, span = user_frames()
        if not frames:
            return None
        size = _size(args) if name in _OF_ONE_SIZE else None
        call = {"op": name, "size": size, "frames": [asdict(frame) for frame in frames], "span": span}
        write_bytes(file, f"{encode(call)}\n".encode(), append=True)
        if channel.now == CAPTURE and not torch.cuda.is_current_stream_capturing():
            issued.beside.append(call)
        return call

    replaced: list[tuple[Any, str, Any]] = []
    for name, spelled in OF_GROUPS.items():
        if hasattr(ProcessGroup, name):
            value = _of_group(getattr(ProcessGroup, name), spelled, job.ranks, note, issued)
            replaced.append((ProcessGroup, name, value))
    for name in FUNCTIONAL:
        if hasattr(functional, name):
            replaced.append((functional, name, _functional(getattr(functional, name), name, job.ranks, note)))
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield issued
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)


def _of_group(original: Callable[..., Any], name: str, ranks: int, note: Note, issued: Issued) -> Callable[..., Any]:
    def noted(group: Any, *args: Any, **kwargs: Any) -> Any:
        call = note(name, args) if group.size() == ranks else None
        work = original(group, *args, **kwargs)
        if call is not None and work is not None and _is_called_directly():
            issued.expect(work, call)
        return work

    return noted


def _is_called_directly() -> bool:
    """Whether the user's code has called a function of torch.distributed, and not a library that knows how to wait."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith(_WRAPPERS):
        frame = frame.f_back
    return frame is not None and is_user_file(frame.f_code.co_filename)


_telling_waits: set[Any] = set()


def _tell_waits(kind: Any, waited: Callable[[Any], None]) -> None:
    """From now on, of every work of this class."""
    if kind in _telling_waits:
        return
    _telling_waits.add(kind)
    for name in _WAITS:
        original = getattr(kind, name, None)
        if original is not None:
            setattr(kind, name, _telling(original, waited))


def _telling(original: Callable[..., Any], waited: Callable[[Any], None]) -> Callable[..., Any]:
    def told(work: Any, *args: Any, **kwargs: Any) -> Any:
        waited(work)
        return original(work, *args, **kwargs)

    return told


def _functional(original: Callable[..., Any], name: str, ranks: int, note: Note) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def noted(*args: Any, **kwargs: Any) -> Any:
        if _size_of_group(signature, args, kwargs) == ranks:
            note(name, args)
        return original(*args, **kwargs)

    return noted


def _size_of_group(signature: inspect.Signature, args: Any, kwargs: Any) -> int | None:
    """None where the call does not say it in a way that is known; a call that is wrong raises later, by itself."""
    import torch.distributed._functional_collectives as functional
    from torch.distributed import distributed_c10d

    resolve: Callable[[str], Any] = getattr(distributed_c10d, "_resolve_process_group")  # noqa: B009
    try:
        group = signature.bind(*args, **kwargs).arguments["group"]
        return int(resolve(functional._resolve_group_name(group)).size())
    except Exception:
        return None


def _size(args: Any) -> int | None:
    """Elements of the first tensor."""
    for value in args:
        if isinstance(value, (list, tuple)):
            return _size(value)
        if hasattr(value, "numel"):
            return int(value.numel())
    return None


def read_issued(folder: Path, child: str) -> list[Call]:
    try:
        lines = read_text(str(_path(folder, child))).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(decode(line))
        except ValueError:  # the process was ended while it wrote
            break
    return found


def first_difference(by_rank: Sequence[Sequence[Call]]) -> dict[int, Call | None] | None:
    """Where the ranks go apart: what each of them issues there, None for one that issues nothing more; None where they
    all issue the same. The lines may differ: a root and the others may each have one."""
    for at in range(max(map(len, by_rank), default=0)):
        here = {rank: calls[at] if at < len(calls) else None for rank, calls in enumerate(by_rank)}
        if len({None if call is None else (call["op"], call["size"]) for call in here.values()}) > 1:
            return _unmatched({rank: _without_partner(by_rank, rank, here) for rank, call in here.items()}, by_rank)
    return None


def _unmatched(here: dict[int, Call | None], by_rank: Sequence[Sequence[Call]]) -> dict[int, Call | None]:
    """Which of these calls are `extra`: no other rank comes to such a line; all of them where none is."""
    elsewhere = {
        rank: {told_of(call) for other, calls in enumerate(by_rank) if other != rank for call in calls} for rank in here
    }
    extra = {rank for rank, call in here.items() if call is not None and told_of(call) not in elsewhere[rank]}
    return {rank: call and {**call, "extra": rank in extra or not extra} for rank, call in here.items()}


def _without_partner(by_rank: Sequence[Sequence[Call]], rank: int, here: Mapping[int, Call | None]) -> Call | None:
    """The first such call of this rank from a line that a rank which issues less never comes to; it was paired with a
    later one of that rank, and so on."""
    others = [calls for other, calls in enumerate(by_rank) if here[other] is None]
    own = here[rank]
    if own is None or not others:
        return own
    known = {told_of(call) for calls in others for call in calls}
    return next((call for call in by_rank[rank] if call["op"] == own["op"] and told_of(call) not in known), own)


def is_collective(op: str) -> bool:
    """Whether an operation of a graph is one, by its name."""
    return op in OF_GROUPS.values() or op.startswith("_c10d_functional::")


def told_of(call: Call) -> str:
    """`all_reduce (model.py:31)`"""
    last = call["frames"][-1]
    return f"{call['op']} ({from_here(last['path'])}:{last['line']})"


def told_in_words(call: Call | None) -> str:
    """What a rank does meanwhile."""
    return "issues none" if call is None else f"issues {told_of(call)}"


def told_apart(apart: Mapping[int, Call | None]) -> str:
    """One line for all ranks."""
    each = ", ".join(f"rank {rank} {told_in_words(call)}" for rank, call in sorted(apart.items()))
    return f"the ranks do not issue the same collectives: {each}"


def _path(folder: Path, child: str) -> Path:
    return folder / f"{child}.{_FILE}"
