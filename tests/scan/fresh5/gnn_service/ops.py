import torch


def scatter_sum(values: torch.Tensor, index: torch.Tensor, rows: int) -> torch.Tensor:
    out = values.new_zeros(rows, values.shape[-1])
    return out.index_add_(0, index, values)


def in_degree(dst: torch.Tensor, rows: int) -> torch.Tensor:
    return torch.bincount(dst, minlength=rows)


def broadcast_runs(node_values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """One copy of a node's row for each of its edges, edges sorted by node."""
    return node_values.repeat_interleave(counts, dim=0)


def sym_norm(deg: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    inv = deg.clamp(min=1).to(torch.float32).rsqrt()
    return (inv[src] * inv[dst]).unsqueeze(-1)
