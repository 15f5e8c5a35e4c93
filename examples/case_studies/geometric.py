"""Steps of torch_geometric 2.8.1 as published, each with a repair (`_repaired`). See docs/case-studies.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

EDGES = ((0, 1, 1, 2, 2, 3, 3, 0), (1, 0, 2, 1, 2, 2, 0, 3))  # one edge is a loop: 2 to 2
Target = tuple[Any, tuple[Any, ...]]


def _graph(device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.randn(4, 8, device=device), torch.tensor(EDGES, device=device)


def gcn_conv(device: torch.device) -> Target:
    from torch_geometric.nn import GCNConv

    return GCNConv(8, 8).to(device).eval().requires_grad_(False), _graph(device)


def gcn_conv_repaired(device: torch.device) -> Target:
    from torch_geometric.nn import GCNConv

    class LoopsByWeight(nn.Module):
        """Append a loop for each node. A loop that the graph already has is not removed, but gets weight zero."""

        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(8, 8, add_self_loops=False)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            nodes = torch.arange(x.size(0), device=x.device)
            weight = torch.cat([(edge_index[0] != edge_index[1]).to(x.dtype), torch.ones_like(x[:, 0])])
            return self.conv(x, torch.cat([edge_index, torch.stack([nodes, nodes])], dim=1), weight)

    return LoopsByWeight().to(device).eval().requires_grad_(False), _graph(device)


def mean_pool(device: torch.device) -> Target:
    from torch_geometric.nn import global_mean_pool

    return global_mean_pool, (torch.randn(4, 8, device=device), torch.tensor([0, 0, 1, 1], device=device))


def mean_pool_repaired(device: torch.device) -> Target:
    from torch_geometric.nn import global_mean_pool

    return lambda x, batch: global_mean_pool(x, batch, size=2), mean_pool(device)[1]


def graph_norm(device: torch.device) -> Target:
    from torch_geometric.nn import GraphNorm

    args = (torch.randn(4, 8, device=device), torch.tensor([0, 0, 1, 1], device=device))
    return GraphNorm(8).to(device).requires_grad_(False), args


def graph_norm_repaired(device: torch.device) -> Target:
    norm, args = graph_norm(device)
    return lambda x, batch: norm(x, batch, batch_size=2), args


def dense_gcn_conv(device: torch.device) -> Target:
    from torch_geometric.nn import DenseGCNConv

    args = (torch.randn(2, 4, 8, device=device), torch.rand(2, 4, 4, device=device))
    return DenseGCNConv(8, 8).to(device).requires_grad_(False), args


def dense_gcn_conv_repaired(device: torch.device) -> Target:
    conv, args = dense_gcn_conv(device)

    def step(x: Tensor, adj: Tensor) -> Tensor:
        adj = adj.clone()
        adj.diagonal(dim1=1, dim2=2).fill_(1)  # a fill on the device, no value from the host's memory
        return conv(x, adj, add_loop=False)

    return step, args


def mf_conv(device: torch.device) -> Target:
    from torch_geometric.nn import MFConv

    return MFConv(8, 8, max_degree=3).to(device).requires_grad_(False), _graph(device)


def mf_conv_repaired(device: torch.device) -> Target:
    from torch_geometric.nn import MFConv
    from torch_geometric.utils import degree

    class EveryDegree(MFConv):
        """Each degree's weights run on all nodes, and a mask chooses: as many rows in every step."""

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            deg = degree(edge_index[1], x.size(0), dtype=torch.long).clamp_(max=self.max_degree)
            h = self.propagate(edge_index, x=(x, x), size=None)
            each = torch.stack([left(h) + right(x) for left, right in zip(self.lins_l, self.lins_r, strict=True)])
            return each.gather(0, deg.view(1, -1, 1).expand(1, -1, each.size(-1)))[0]

    return EveryDegree(8, 8, max_degree=3).to(device).requires_grad_(False), _graph(device)


def _relations(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    return *_graph(device), torch.tensor([0, 1, 0, 1, 2, 2, 0, 1], device=device)


def rgcn_conv(device: torch.device) -> Target:
    from torch_geometric.nn import RGCNConv

    return RGCNConv(8, 8, num_relations=3).to(device).requires_grad_(False), _relations(device)


def rgcn_conv_repaired(device: torch.device) -> Target:
    from torch_geometric.nn import FastRGCNConv

    return FastRGCNConv(8, 8, num_relations=3).to(device).requires_grad_(False), _relations(device)


def vector_norm(device: torch.device) -> Target:
    from torch_geometric.nn.models.visnet import VecLayerNorm

    return VecLayerNorm(6, trainable=False).to(device), (torch.randn(4, 3, 6, device=device),)


def vector_norm_repaired(device: torch.device) -> Target:
    from torch_geometric.nn.models.visnet import VecLayerNorm

    class NoBranch(VecLayerNorm):
        """Lengths are clamped to `eps`, so vectors of zeros give zeros without a branch."""

        def max_min_norm(self, vec: Tensor) -> Tensor:
            length = vec.norm(dim=1, keepdim=True).clamp(min=self.eps)
            low, high = length.aminmax(dim=-1, keepdim=True)
            spread = torch.where(high == low, 1.0, high - low)
            return ((length - low) / spread).relu() * vec / length

    return NoBranch(6, trainable=False).to(device), vector_norm(device)[1]


def dense_batch(device: torch.device) -> Target:
    from torch_geometric.utils import to_dense_batch

    args = (torch.randn(5, 8, device=device), torch.tensor([0, 0, 1, 1, 1], device=device))
    return lambda x, batch: to_dense_batch(x, batch, batch_size=2, max_num_nodes=4), args


def dense_batch_repaired(device: torch.device) -> Target:
    def step(x: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        count = x.new_zeros(2, dtype=torch.long).scatter_add_(0, batch, torch.ones_like(batch))
        place = torch.arange(x.size(0), device=x.device) - (count.cumsum(0) - count)[batch]
        row = torch.where(place < 4, batch * 4 + place, 2 * 4)  # nodes that do not fit are written to a spare row
        out = x.new_zeros(2 * 4 + 1, 8).index_copy_(0, row, x)[:-1]
        mask = torch.zeros(2 * 4 + 1, dtype=torch.bool, device=x.device).index_fill_(0, row, True)[:-1]
        return out.view(2, 4, 8), mask.view(2, 4)

    return step, dense_batch(device)[1]


def quantile(device: torch.device) -> Target:
    from torch_geometric.nn.aggr import QuantileAggregation

    args = (torch.randn(5, 8, device=device), torch.tensor([0, 0, 1, 1, 1], device=device))
    median = QuantileAggregation(0.5).to(device)
    return lambda x, index: median(x, index, dim_size=3), args


def quantile_repaired(device: torch.device) -> Target:
    def step(x: Tensor, index: Tensor) -> Tensor:
        count = index.new_zeros(3).scatter_add_(0, index, torch.ones_like(index))  # like bincount, with a fixed size
        first = (count.cumsum(0) - count).clamp(max=x.size(0) - 1)
        x, order = x.sort(dim=0)
        x = x.take_along_dim(index[order].sort(dim=0, stable=True)[1], dim=0)
        place = 0.5 * (count - 1) + first
        low, high = x[place.floor().long()], x[place.ceil().long()]
        return (low + (high - low) * place.frac()[:, None]).masked_fill((count == 0)[:, None], 0.0)

    return step, quantile(device)[1]


def global_attention(device: torch.device) -> Target:
    from torch_geometric.nn.attention import SGFormerAttention

    return SGFormerAttention(8, heads=2).to(device).requires_grad_(False), (torch.randn(2, 5, 8, device=device),)


def global_attention_repaired(device: torch.device) -> Target:
    attention, args = global_attention(device)

    def step(x: Tensor) -> Tensor:
        q, k, v = (part(x).view(2, 5, 2, -1) for part in (attention.q, attention.k, attention.v))
        q, k = (part / part.norm(dim=-1, keepdim=True) for part in (q, k))
        above = torch.einsum("bnhm,bhmd->bnhd", q, torch.einsum("blhm,blhd->bhmd", k, v)) + 5 * v
        below = torch.einsum("bnhm,bhm->bnh", q, k.sum(1)) + 5  # a sum is the product with ones
        return (above / below.unsqueeze(-1)).mean(dim=2)

    return step, args


def mask_label(device: torch.device) -> Target:
    from torch_geometric.nn import MaskLabel

    labels, known = torch.tensor([0, 2, 1, 2], device=device), torch.tensor([True, False, True, True], device=device)
    return MaskLabel(3, 8).to(device).requires_grad_(False), (torch.randn(4, 8, device=device), labels, known)


def mask_label_repaired(device: torch.device) -> Target:
    layer, args = mask_label(device)
    return lambda x, labels, known: x + layer.emb(labels) * known.unsqueeze(-1), args
