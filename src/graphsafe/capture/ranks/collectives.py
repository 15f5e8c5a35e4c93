"""The collectives that PyTorch has, by their names."""

from __future__ import annotations

from collections.abc import Mapping

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


def is_collective(op: str) -> bool:
    """Whether an operation of a graph is one, by its name."""
    return op in OF_GROUPS.values() or op.startswith("_c10d_functional::")
