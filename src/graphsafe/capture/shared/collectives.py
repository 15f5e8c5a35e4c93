"""The names of PyTorch's collectives, and the file in which a child notes the collectives that it issues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from graphsafe.report.model import CallSite, Span


@dataclass(frozen=True, slots=True)
class Call:
    """A collective that a rank has issued."""

    op: str
    size: int | None
    "Number of elements of the call's tensor. None if this number may differ between ranks."
    frames: tuple[CallSite, ...]
    span: Span | None
    extra: bool = False
    "Whether no other rank reaches the call's line."


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
"""Method of a process group -> the function of torch.distributed that calls it. `send` and `recv` are not listed,
because they connect only two ranks."""

FUNCTIONAL = (
    *("all_gather_tensor", "all_gather_into_tensor_coalesced", "all_reduce", "all_reduce_coalesced"),
    *("all_to_all_single", "broadcast", "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced"),
)
"Functions of `torch.distributed._functional_collectives`, which do not call the methods of process groups."

OF_OBJECTS = (
    *("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"),
    *("recv_object_list", "send_object_list"),
)
"Functions of torch.distributed that first send sizes. The host waits for these sizes."


def is_collective(op: str) -> bool:
    """Return whether a graph's operation with this name is a collective."""
    return op in OF_GROUPS.values() or op.startswith("_c10d_functional::")


def file_of(folder: Path, child: str) -> Path:
    """Return the file in which a child notes the collectives that it issues."""
    return folder / f"{child}.collectives"
