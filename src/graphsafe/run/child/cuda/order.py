"""Checks on a GPU whether writes to graphs' inputs are ordered with the replays. It runs only with `--waits`.

A tensor's version is the number of writes to it that PyTorch has counted. Versions are compared when the current stream
changes, when an event is recorded or waited for, when the host waits, and when a replay begins. A new version counts as
a write on the stream that has been current since the last comparison. The check ends as soon as several threads use
streams, because any of these threads can then have made a write.
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

from graphsafe.capture.device.cuda.nodes import GraphNode
from graphsafe.capture.device.races import Access as Elements
from graphsafe.capture.shared.classify import Function
from graphsafe.capture.shared.frames import user_frames
from graphsafe.failure import in_one_line
from graphsafe.report.model import CallSite
from graphsafe.run.child.cuda.pinned import copied_from
from graphsafe.run.child.host_inputs import HostInputs
from graphsafe.run.child.names import Name
from graphsafe.run.child.refills import ALL, Part, Parts, Refills, Stream
from graphsafe.run.child.sight import Touch
from graphsafe.run.child.source import innermost, written_in_place
from graphsafe.run.facts import Calls

_MOST = 256
"The versions of at most this many inputs are compared."


@dataclass(slots=True)
class _Input:
    tensor: weakref.ref[torch.Tensor]
    names: frozenset[str]
    version: int


class CudaOrder:
    def __init__(self, current: Callable[[], Stream]) -> None:
        """Make the check. `current` returns the current stream of the calling thread."""
        self.refills = Refills({})
        self._host = HostInputs(self.refills)
        self.problem: str | None = None
        "Why the check has ended, or None."
        self._current = current
        self._inputs: dict[int, _Input] = {}
        "Number of a storage that graphs read -> a tensor with this storage."
        self._changed: set[int] = set()
        "Numbers of storages that a graph reads and that were written after its capture."
        self._copies: weakref.WeakKeyDictionary[object, Parts] = weakref.WeakKeyDictionary()
        "Graph -> the parts of host memory from which it copies."
        self._left: set[int] = set()
        "Numbers of storages of which graphs use only parts."
        self._thread: int | None = None
        self._stream: Stream | None = None
        "The stream that was current when versions were last compared."

    def captured(
        self,
        names: Mapping[int, Sequence[Name]],
        touches: Collection[Touch] = (),
        nodes: Sequence[GraphNode] = (),
        graph: object = None,
    ) -> None:
        """Begin to watch the memory that a graph reads.

        `names` are the names of the storages that it reads. Writes by the capture itself are ignored, because a capture
        runs nothing.
        """
        self.settle()
        host = [touch for touch in touches if touch.storage.device.type == "cpu"]
        parts = {touch.number: _copied(touch.storage, nodes) for touch in host}
        self._host.captured(host, parts)
        if graph is not None:
            self._copies[graph] = parts
        self._leave(touch.number for touch in touches if nodes and _is_in_parts(touch.storage, nodes))
        for number in names.keys() - self._left:
            tensors = [tensor for name in names[number] if (tensor := name.tensor()) is not None]
            tensor = min(tensors, key=lambda one: one._base is not None, default=None)  # a view may die before its base
            version = None if tensor is None else _version(tensor)
            if tensor is not None and version is not None and number not in self._inputs and len(self._inputs) < _MOST:
                known = frozenset(name.text for name in names[number])
                self._inputs[number] = _Input(weakref.ref(tensor), known, version)
        self.refills.captured(self._inputs)

    def _leave(self, storages: Iterable[int]) -> None:
        """Stop comparing the versions of storages of which graphs use only parts, because all parts of a storage have
        one version."""
        for number in storages:
            self._left.add(number)
            self._changed.discard(number)
            if self._inputs.pop(number, None) is not None:
                self.refills.dropped(number)

    def settle(self) -> None:
        """Ignore the writes since the last comparison."""
        self._written()
        self._stream = self._current()

    def look(self) -> None:
        """Compare all versions. Call it before the current stream changes and before any call that orders streams."""
        here = threading.get_ident()
        self._thread = self._thread or here
        if here != self._thread:
            self.problem = self.problem or "several threads use streams, and any of them may have written"
        if self.problem is not None:
            return
        written, stream = self._written(), self._current()
        self._host.leave(number for number, _ in written)  # later writes change the tensor's version
        self._host.look()
        before, self._stream = self._stream, stream
        if before not in (None, stream):  # the current stream changed in a call that is not hooked
            return
        self._changed.update(number for number, _ in written)
        for number, one in written:
            tensor = one.tensor()
            frames = functools.partial(_calls, one.names)
            if tensor is not None and tensor.is_pinned():
                self.refills.host_wrote(number, frames)
            else:
                self.refills.wrote(stream, [number], frames())

    def switched(self) -> None:
        """Record that the current stream has changed. Call `look` before the change."""
        self._stream = self._current()

    def replaying(self, storages: Collection[int], graph: object = None) -> None:
        """Record that a graph which reads these storages is about to be replayed."""
        self.look()
        changed = (self._changed | self._host.watched()).intersection(storages)
        if changed and self.problem is None:
            parts = {**dict.fromkeys(changed, ALL), **({} if graph is None else self._copies.get(graph, {}))}
            self.refills.replayed(self._current(), dict.fromkeys(changed, "read"), user_frames()[0], parts)

    def quietly(self, do: Callable[..., None], *args: Any) -> None:
        """Run a hook of graphsafe. An error in it ends this check and does not stop the program."""
        try:
            do(*args)
        except Exception as error:
            self.problem = in_one_line(error)

    def _written(self) -> list[tuple[int, _Input]]:
        """Return the inputs that were written since this method was last called."""
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


def _copied(storage: torch.UntypedStorage, nodes: Sequence[GraphNode]) -> Part:
    return frozenset(Elements(one.start, 1, (len(one),), (1,), False) for one in copied_from(storage, nodes))


def _is_in_parts(storage: torch.UntypedStorage, nodes: Sequence[GraphNode]) -> bool:
    """Return whether a graph uses only a part of a storage. This is so for a host storage if no copy reads all of it,
    and for a device storage if no node uses its first address."""
    if storage.device.type == "cpu":
        return all(len(one) < storage.nbytes() for one in copied_from(storage, nodes))
    return all(storage.data_ptr() not in node.words for node in nodes)


def _version(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor has been written. Return None for an inference tensor, which has no version."""
    with torch._C.DisableTorchFunction():
        return None if tensor.is_inference() else int(tensor._version)


def _calls(names: frozenset[str]) -> Calls:
    """Return the running calls. If the line that wrote to these names is known, the last call is at that line.

    A version shows only that a write happened earlier. If exactly one statement of the running block writes to these
    names, that statement counts as the writer.
    """
    frames, _ = user_frames()
    if not frames:
        return frames
    last = frames[-1]
    found = [line for line, written in _writes(last.path, last.line).items() if written & names]
    return (*frames[:-1], CallSite(last.path, found[0], last.function)) if len(found) == 1 else frames


@functools.lru_cache(maxsize=256)
def _writes(path: str, line: int) -> dict[int, frozenset[str]]:
    """Return, for each line of the innermost `with`, loop or function around `line`, the names that it writes in
    place.

    Only writes up to `line` are included. If the block begins on `line`, all writes are included, because Python ends a
    `with` on its first line.
    """
    block = innermost(path, line, ast.With, ast.For, ast.While, Function)
    found: dict[int, frozenset[str]] = {}
    for node in ast.walk(block) if block is not None else ():
        names = frozenset(map(ast.unparse, written_in_place(node)))
        at = getattr(node, "lineno", 0)
        if names and block is not None and (block.lineno == line or at <= line):
            found[at] = found.get(at, frozenset()) | names
    return found
