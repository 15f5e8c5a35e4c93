"""Follows on a GPU whether writes of graphs' inputs and replays are ordered, with `--waits`: then every wait is seen.

A write is seen by the version that PyTorch counts for each tensor. Versions are compared whenever the stream changes,
an event is recorded or waited for, the host waits, and before a replay. A write since then is one of the stream that
was current. If several threads use streams, nothing more is told: a write could be that of any.
"""

from __future__ import annotations

import ast
import functools
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.shared.frames import user_frames
from graphsafe.failure import in_one_line
from graphsafe.report.model import CallSite
from graphsafe.run.child.expressions import file_tree, written_in_place
from graphsafe.run.child.host_inputs import HostInputs
from graphsafe.run.child.names import Name
from graphsafe.run.child.refills import Frames, Refills, Stream
from graphsafe.run.child.sight import Touch

_MOST = 256
"Number of inputs whose versions are compared."


@dataclass(slots=True)
class _Input:
    tensor: weakref.ref[torch.Tensor]
    names: frozenset[str]
    version: int


class CudaOrder:
    def __init__(self, current: Callable[[], Stream]) -> None:
        """`current` returns the stream that is current in this thread."""
        self.refills = Refills({})
        self._host = HostInputs(self.refills)
        self.problem: str | None = None
        "The reason why nothing more is told."
        self._current = current
        self._inputs: dict[int, _Input] = {}
        "Storage -> a tensor of it, for those that graphs read."
        self._changed: set[int] = set()
        "Storages that were written since a graph was captured that reads them."
        self._thread: int | None = None
        self._stream: Stream | None = None
        "The stream that was current when versions were compared."

    def captured(self, reads: Mapping[int, Sequence[Name]], host: Iterable[Touch] = ()) -> None:
        """Begin to watch what a graph reads, by its storage's number and its names, and the `host` memory that it uses;
        the capture's own writes, which ran nothing, are nobody's."""
        self.settle()
        self._host.captured(host)
        for number, names in reads.items():
            tensors = [tensor for name in names if (tensor := name.tensor()) is not None]
            tensor = min(tensors, key=lambda one: one._base is not None, default=None)  # a view may die before its base
            version = None if tensor is None else _version(tensor)
            if tensor is not None and version is not None and number not in self._inputs and len(self._inputs) < _MOST:
                known = frozenset(name.text for name in names)
                self._inputs[number] = _Input(weakref.ref(tensor), known, version)
        self.refills.captured(self._inputs)

    def settle(self) -> None:
        """Take writes since the last look for nobody's."""
        self._written()
        self._stream = self._current()

    def look(self) -> None:
        """Compare all versions; call it before the current stream changes, and before what orders streams."""
        here = threading.get_ident()
        self._thread = self._thread or here
        if here != self._thread:
            self.problem = self.problem or "several threads use streams, and a write could be that of any"
        if self.problem is not None:
            return
        written, stream = self._written(), self._current()
        self._host.leave(number for number, _ in written)  # from now on its versions tell
        self._host.look()
        before, self._stream = self._stream, stream
        if before not in (None, stream):  # the stream was changed in a way that is not seen
            return
        self._changed.update(number for number, _ in written)
        for number, one in written:
            tensor = one.tensor()
            frames = functools.partial(_calls, one.names)
            if tensor is not None and tensor.is_pinned():
                self.refills.host_wrote([number], frames)
            else:
                self.refills.wrote(stream, [number], frames())

    def switched(self) -> None:
        """Record that the current stream has changed, after `look`."""
        self._stream = self._current()

    def replaying(self, storages: Collection[int]) -> None:
        """Record that a graph that reads these storages is about to be replayed."""
        self.look()
        changed = (self._changed | self._host.watched()).intersection(storages)
        if changed and self.problem is None:
            self.refills.replayed(self._current(), dict.fromkeys(changed, "read"), user_frames()[0])

    def quietly(self, do: Callable[..., None], *args: Any) -> None:
        """Run the work of a hook. A fault of graphsafe ends the watch of the order, and the program goes on."""
        try:
            do(*args)
        except Exception as error:
            self.problem = in_one_line(error)

    def _written(self) -> list[tuple[int, _Input]]:
        """Return the inputs that were written since the last call."""
        found = []
        for number, one in list(self._inputs.items()):
            tensor = one.tensor()
            version = None if tensor is None else _version(tensor)
            if version is None:
                del self._inputs[number]
                self._changed.discard(number)
                self.refills.dropped(number)
            elif version != one.version:
                one.version = version
                found.append((number, one))
        return found


def _version(tensor: torch.Tensor) -> int | None:
    """Return the number of writes so far; None for a tensor of inference mode, which does not count them."""
    with torch._C.DisableTorchFunction():
        return None if tensor.is_inference() else int(tensor._version)


def _calls(names: frozenset[str]) -> Frames:
    """Return the running calls. The last one is moved to the statement that writes, if one alone in the running block
    writes to these names: versions tell only that a write has come before."""
    frames, _ = user_frames()
    if not frames:
        return frames
    last = frames[-1]
    found = [line for line, written in _writes(last.path, last.line).items() if written & names]
    return (*frames[:-1], CallSite(last.path, found[0], last.function)) if len(found) == 1 else frames


@functools.lru_cache(maxsize=256)
def _writes(path: str, line: int) -> dict[int, frozenset[str]]:
    """Return the names that are written in place, by line, in the innermost `with`, loop or function that holds the
    line: up to there, or as a whole if it begins there, since a `with` ends on its first line."""
    blocks = [one for one in ast.walk(file_tree(path)) if isinstance(one, _BLOCKS) and _holds(one, line)]
    block = max(blocks, key=lambda one: one.lineno, default=None)
    found: dict[int, frozenset[str]] = {}
    for node in ast.walk(block) if block is not None else ():
        names = frozenset(map(ast.unparse, written_in_place(node)))
        at = getattr(node, "lineno", 0)
        if names and block is not None and (block.lineno == line or at <= line):
            found[at] = found.get(at, frozenset()) | names
    return found


_BLOCKS = (ast.With, ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)


def _holds(node: Any, line: int) -> bool:
    return bool(node.lineno <= line <= (node.end_lineno or line))
