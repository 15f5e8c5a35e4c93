"""Records the path that a step takes through its Python code, as a list of operations. Also finds the memory that
depends on some of these operations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.child.lines.operations import NUMBER, Operation, OperationsSeen, Unnamed, address_of
from graphsafe.capture.device.structures import by_schema, is_written, tensors_in


def calls_of(operations: Iterable[Operation], varying: Collection[int]) -> list[str]:
    """Return each operation as a string that is the same in every process. The strings leave out memory locations and
    all arguments of type `str`. For operations whose indices are in `varying`, the strings leave out numbers too."""
    return [
        repr((one.name, () if at in varying else [n for n in one.numbers if NUMBER.match(n)], one.shapes))
        for at, one in enumerate(operations)
    ]


def texts_of(path: Iterable[Operation]) -> Set[str]:
    """Return the strings among the arguments, such as settings of kernels and sources of random numbers. The simulated
    device computes the same with other settings, so its rounds do not test settings."""
    return {one for operation in path for one in operation.numbers if not NUMBER.match(one)}


def name_of_path(calls: Iterable[str]) -> str:
    """Return a short name for a path. `calls` are the path's operations, as strings from `calls_of`."""
    return hashlib.blake2b("\n".join(calls).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class _Flow:
    """The flow of values through one operation. Memory is given by its address."""

    at: int | None
    "The operation's index on the path; None for an operation of the host."
    reads: Set[int]
    made: Set[int]
    written: Set[int]


class PathSeen(OperationsSeen):  # type: ignore[no-untyped-call]
    """Records the operations of a step, and the flow of values between them. No tensor is kept alive."""

    def __init__(self, on_device: Callable[[torch.Tensor], bool]) -> None:
        self.operations: list[Operation] = []
        self._flows: list[_Flow] = []
        super().__init__(self.operations.append, {}, on_device, "", Unnamed(is_recording=False))

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        before = len(self.operations)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        with torch._C.DisableTorchFunction():
            reads = _memory((args, kwargs))
            made = _memory(result) - reads
            at = before if len(self.operations) > before else None
            self._flows.append(_Flow(at, reads, made, _written(func, args, kwargs or {}, reads)))
        return result

    def written(self) -> Set[int]:
        """Return the memory that the step wrote in place."""
        return frozenset[int]().union(*(flow.written for flow in self._flows))

    def reached_from(self, part: range) -> Set[int]:
        """Return the memory whose values depend on the operations with these indices."""
        found: set[int] = set()
        for flow in self._flows:
            if flow.at in part or not found.isdisjoint(flow.reads):
                found |= flow.made | flow.written
            else:
                found -= flow.made  # this memory was freed and is used again
        return found


def _memory(values: Any) -> set[int]:
    return {address_of(tensor) for tensor in tensors_in(values)}


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], reads: Set[int]) -> Set[int]:
    if not isinstance(func, torch._ops.OpOverload):
        return reads
    if not func._schema.is_mutable:
        return frozenset()
    return _memory([value for argument, value in by_schema(func, args, kwargs) if is_written(argument)])


def unlike(left: Sequence[object], right: Sequence[object]) -> tuple[range, range]:
    """Return the parts of two paths that lie between their common beginning and their common end."""
    least = min(len(left), len(right))
    begin = next((at for at in range(least) if left[at] != right[at]), least)
    end = next((at for at in range(least - begin) if left[-1 - at] != right[-1 - at]), least - begin)
    return range(begin, len(left) - end), range(begin, len(right) - end)
