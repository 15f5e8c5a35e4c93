"""Packed sequences of `torch.nn.utils.rnn`: named tuples whose `batch_sizes` are always on the host."""

from __future__ import annotations

import ast
from typing import TypeGuard

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join, sequence
from graphsafe.scan.domain.values import NONE, UNKNOWN, Sequence, Tensor, Value, depends_on_step
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models.op_arguments import tensors_in

CLASS = "torch.nn.utils.rnn.PackedSequence"
_FIELDS = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")


def of(data: Value) -> Value:
    """Return the packed sequence with these rows, or the value itself if it is no tensor. The indices are on the same
    device as the rows, or are None if the rows were sorted before."""
    if type(data) is not Tensor:
        return data
    sizes = _sizes(data)
    order = join(replace(sizes, where=data.where, certain=data.certain), NONE)
    return replace(sequence("tuple", (data, sizes, order, order)), names=_FIELDS)


def _sizes(data: Tensor) -> Tensor:
    return Tensor("host", "int", 1, step=data.step, fresh=True)


def is_packed(value: Value) -> TypeGuard[Sequence]:
    return type(value) is Sequence and value.names == _FIELDS


def made(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the result of `pack_padded_sequence(x, lengths)`, `pack_sequence(list)` or `PackedSequence(x, sizes)`."""
    return of(_rows(arguments))


def padded(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the result of `pad_packed_sequence`: the rows, and their lengths on the host."""
    rows = _rows(arguments)
    return sequence("tuple", (rows, _sizes(rows)))


def _rows(arguments: Arguments) -> Tensor:
    """Return the rows that a function makes of its first argument, which contains a tensor in any case."""
    given = next(iter(arguments.values()), UNKNOWN)
    known = next(iter(tensors_in(given)), Tensor("any", step=depends_on_step(given)))
    return Tensor(known.where, known.dtype, step=known.step, fresh=True, certain=known.certain)


def after(first: Value, results: Sequence) -> Sequence:
    """Return the results of a layer. A recurrent layer that receives a packed sequence returns another one."""
    items = results.items
    return sequence("tuple", (of(items[0]), *items[1:])) if items and is_packed(first) else results
