"""Compares two recordings of one step node by node. If a value differs, Python froze it in each capture.

Memory allocated in one capture may correspond to any memory allocated in the other, but always to the same memory.
Memory that is older than the captures must have the same address in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import torch

from graphsafe.capture.device.bits import layout_text, tensor_bytes
from graphsafe.capture.device.sim.graphs import CUDAGraph
from graphsafe.capture.device.sim.nodes import Node
from graphsafe.capture.device.sim.tags import HOST, born_in, index_of, is_pinned, storages
from graphsafe.report.probes.twin import Difference

_SHOWN = 8
"The largest number of elements of a host tensor that a report shows."

Change = tuple[Any, str, str]
"The kind of the change (`Difference.what`), and the values before and after."


def differences(first: CUDAGraph, second: CUDAGraph) -> tuple[Difference, ...]:
    """Return all differences in graph order. Each difference has the line of its node in `second`, or in `first`
    if `second` has no such node.

    The comparison stops at the first node whose operation differs, because later nodes no longer correspond to each
    other.
    """
    pairing = _Pairing(first, second)
    found: list[Difference] = []
    one, other = first.nodes, second.nodes
    for number, (before, after) in enumerate(zip_longest(one, other)):
        if before is None or after is None or before.func is not after.func:
            if len(one) != len(other):
                change: Change = ("count", f"{len(one)} nodes", f"{len(other)} nodes")
            else:
                change = ("operation", before.op, after.op)
            found.append(_difference(number, after or before, change))
            break
        found += [_difference(number, after, change) for change in _changes(before, after, pairing)]
    return tuple(found)


def _difference(number: int, node: Node | None, change: Change) -> Difference:
    assert node is not None
    what, before, after = change
    return Difference(number, what, node.op, before, after, node.frames, node.span)


def _changes(before: Node, after: Node, pairing: _Pairing) -> list[Change]:
    old, new = dict(_leaves(before)), dict(_leaves(after))
    if old.keys() != new.keys():
        return [("extent", f"{len(old)} arguments", f"{len(new)} arguments")]
    found = [change for name, value in old.items() for change in pairing.changes(name, value, new[name])]
    for one, other in zip(before.outputs, after.outputs, strict=False):
        found += pairing.changes("result", one, other)
    if before.draw is not None and after.draw is not None and before.draw.generator is not after.draw.generator:
        found.append(("address", "a random generator", "another random generator"))
    return found


def _leaves(node: Node) -> Iterator[tuple[str, Any]]:
    """Yield the arguments with their names in the operation's schema. The elements of lists are separate arguments."""
    names = (argument.name for argument in node.func._schema.arguments)
    for name, value in (*zip(names, node.args, strict=False), *node.kwargs.items()):
        yield from _parts(name, value)


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _parts(f"{name}[{index}]", item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(f"{name}[{key!r}]", item)
    else:
        yield name, value


class _Pairing:
    """Pairs the memory of one recording with the memory of the other."""

    def __init__(self, first: CUDAGraph, second: CUDAGraph) -> None:
        self._sessions = first.captured_in, second.captured_in
        self._partner: dict[int, int] = {}
        self._taken: dict[int, int] = {}

    def changes(self, name: str, before: Any, after: Any) -> list[Change]:
        if not (isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)):
            return _changed_value(name, before, after)
        if before.dtype != after.dtype or before.layout != after.layout:
            return [("operation", _described(name, before), _described(name, after))]
        if before.shape != after.shape or _strides(before) != _strides(after):
            return [("extent", _described(name, before), _described(name, after))]
        if index_of(before) == HOST and index_of(after) == HOST:
            return self._on_host(name, before, after)
        if not self._same_memory(before, after):
            return [("address", _described(name, before), f"{_described(name, after)} in other memory")]
        start, now = _offset(before), _offset(after)
        if start != now:
            return [("address", f"{_described(name, before)} at element {start}", f"the same memory at element {now}")]
        return []

    def _on_host(self, name: str, before: torch.Tensor, after: torch.Tensor) -> list[Change]:
        """Compare a host tensor: a number that a kernel was given, or pinned memory that a copy reads. Pinned memory
        that was allocated during the capture is compared by the values that the host wrote into it."""
        if is_pinned(before) and not (self._is_born(0, before) and self._is_born(1, after)):
            is_same = self._same_memory(before, after)
            return [] if is_same else [("address", f"argument {name} (pinned memory)", "other memory")]
        if before.is_meta or after.is_meta:  # shapes mode computes no values
            return []
        if tensor_bytes(before.contiguous()) == tensor_bytes(after.contiguous()):
            return []
        return [("scalar", f"{name}={_values(before)}", f"{name}={_values(after)}")]

    def _is_born(self, side: int, tensor: torch.Tensor) -> bool:
        return self._sessions[side] is not None and born_in(tensor, self._sessions[side])

    def _same_memory(self, before: torch.Tensor, after: torch.Tensor) -> bool:
        old, new = ([storage._cdata for storage in storages(tensor)] for tensor in (before, after))
        born = self._is_born(0, before), self._is_born(1, after)
        if born != (True, True):
            return born == (False, False) and old == new
        return len(old) == len(new) and all(
            self._partner.setdefault(one, other) == other and self._taken.setdefault(other, one) == one
            for one, other in zip(old, new, strict=True)
        )


def _described(name: str, tensor: torch.Tensor) -> str:
    what = "the result" if name == "result" else f"argument {name}"
    return f"{what} ({layout_text(tensor)})"


def _changed_value(name: str, before: Any, after: Any) -> list[Change]:
    # a NaN differs from itself
    if type(before) is type(after) and (before == after or (before != before and after != after)):
        return []
    numbers = (bool, int, float, complex, str)
    if not isinstance(before, numbers) or not isinstance(after, numbers):
        what = "operation"  # a tensor that is None in the other capture, or another dtype, selects another kernel
    else:
        what = "extent" if "[" in name and isinstance(before, int) else "scalar"
    return [(what, f"{name}={_shown(before)}", f"{name}={_shown(after)}")]


def _shown(value: Any) -> str:
    return layout_text(value) if isinstance(value, torch.Tensor) else str(value)


def _values(tensor: torch.Tensor) -> str:
    return str(tensor.tolist()) if tensor.numel() <= _SHOWN else layout_text(tensor)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return tensor.stride() if tensor.layout == torch.strided and not tensor.is_nested else ()


def _offset(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) if tensor.layout == torch.strided and not tensor.is_nested else 0
