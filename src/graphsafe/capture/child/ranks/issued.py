"""Notes the collectives that each rank issues, in order, with their lines. Each collective is noted before it is
issued, because a collective that other ranks do not issue never ends."""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from graphsafe.capture.processes.originals import encode, write_bytes
from graphsafe.capture.shared.collectives import FUNCTIONAL, OF_GROUPS, Call, file_of
from graphsafe.capture.shared.frames import frames_from, is_graphsafe_file, is_user_file, user_frames
from graphsafe.capture.shared.job import CAPTURE, Channel, Job
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.json_form import plain

_OF_ONE_SIZE = ("all_reduce", "broadcast", "reduce")
"Collectives whose tensors have the same number of elements in every rank."
_WAITS = ("wait", "synchronize", "block_current_stream", "get_future", "is_completed")
_WRAPPERS = ("distributed_c10d.py", "c10d_logger.py", "typing_extensions.py", "torch/overrides.py")

Note = Callable[[str, Any, bool], "Call | None"]


@dataclass
class Issued:
    beside: list[Call] = field(default_factory=list)
    "Collectives that were issued during the capture, but on a stream that is not part of it."
    alone: bool = False
    """Whether only this rank captures. Its collectives are then not noted, because they would look like a difference
    between the ranks."""
    _pending: dict[int, tuple[weakref.ref[Any], Call]] = field(default_factory=dict)
    _lost: list[Call] = field(default_factory=list)

    def expect(self, work: Any, call: Call) -> None:
        """Expect a wait for `work`. Keep only a weak reference, because `work` keeps memory alive."""
        before = self._pending.pop(id(work), None)
        self._lost += [before[1]] if before is not None else []
        self._pending[id(work)] = weakref.ref(work), call
        _report_waits(type(work), self._waited)

    def _waited(self, work: Any) -> None:
        self._pending.pop(id(work), None)

    def never_waited(self) -> list[Call]:
        """Return the asynchronous collectives that were issued since the last call of this method and for which nothing
        has waited."""
        found = [*self._lost, *(call for _, call in self._pending.values())]
        self._lost.clear()
        self._pending.clear()
        return found


@contextmanager
def issued_noted(job: Job, channel: Channel) -> Iterator[Issued]:
    """Note each collective that is issued. Collectives over all ranks are also in a file that the parent reads."""
    import torch.distributed._functional_collectives as functional
    from torch.distributed import ProcessGroup

    file = str(file_of(channel.folder, channel.name))
    Path(file).unlink(missing_ok=True)
    issued = Issued()

    def note(name: str, args: Any, of_all: bool) -> Call | None:
        frames, span = user_frames()
        if not frames:
            return None
        size = _size(args) if name in _OF_ONE_SIZE else None
        call = Call(name, size, frames, span)
        if of_all and not issued.alone:
            write_bytes(file, f"{encode(plain(call))}\n".encode(), append=True)
        if channel.now == CAPTURE and not torch.cuda.is_current_stream_capturing():
            issued.beside.append(call)
        return call

    changes: list[tuple[Any, str, Any]] = []
    for name, spelled in OF_GROUPS.items():
        if hasattr(ProcessGroup, name):
            value = _of_group(getattr(ProcessGroup, name), spelled, job.ranks, note, issued)
            changes.append((ProcessGroup, name, value))
    for name in FUNCTIONAL:
        if hasattr(functional, name):
            changes.append((functional, name, _functional(getattr(functional, name), name, job.ranks, note)))
    with replaced(*changes):
        yield issued


def _of_group(original: Callable[..., Any], name: str, ranks: int, note: Note, issued: Issued) -> Callable[..., Any]:
    def noted(group: Any, *args: Any, **kwargs: Any) -> Any:
        call = note(name, args, group.size() == ranks)
        work = original(group, *args, **kwargs)
        if call is not None and work is not None and _is_called_directly():
            issued.expect(work, call)
        return work

    return noted


def _is_called_directly() -> bool:
    """Return whether the user's code called torch.distributed itself. A library would wait by itself."""
    for frame in frames_from(sys._getframe(2)):
        file = frame.f_code.co_filename
        if not file.endswith(_WRAPPERS) and not is_graphsafe_file(file):  # a wrapper only passes the call on
            return is_user_file(file)
    return False


_reporting_waits: set[Any] = set()


def _report_waits(kind: Any, waited: Callable[[Any], None]) -> None:
    """Report waits for all `work` objects of this class from now on."""
    if kind in _reporting_waits:
        return
    _reporting_waits.add(kind)
    for name in _WAITS:
        original = getattr(kind, name, None)
        if original is not None:
            setattr(kind, name, _watching(original, waited))


def _watching(original: Callable[..., Any], waited: Callable[[Any], None]) -> Callable[..., Any]:
    def watched(work: Any, *args: Any, **kwargs: Any) -> Any:
        waited(work)
        return original(work, *args, **kwargs)

    return watched


def _functional(original: Callable[..., Any], name: str, ranks: int, note: Note) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def noted(*args: Any, **kwargs: Any) -> Any:
        note(name, args, _size_of_group(signature, args, kwargs) == ranks)
        return original(*args, **kwargs)

    return noted


def _size_of_group(signature: inspect.Signature, args: Any, kwargs: Any) -> int | None:
    """Return the size of the group; None if the call is wrong, or if it passes the group in an unknown way."""
    import torch.distributed._functional_collectives as functional
    from torch.distributed import distributed_c10d

    resolve: Callable[[str], Any] = getattr(distributed_c10d, "_resolve_process_group")  # noqa: B009
    try:
        group = signature.bind(*args, **kwargs).arguments["group"]
        return int(resolve(functional._resolve_group_name(group)).size())
    except Exception:
        return None


def _size(args: Any) -> int | None:
    """Return the number of elements of the first tensor."""
    for value in args:
        if isinstance(value, (list, tuple)):
            return _size(value)
        if hasattr(value, "numel"):
            return int(value.numel())
    return None
