"""Steps of torch_geometric 2.8.1 as it is published, and each with a repair (`_repaired`). docs/case-studies.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

EDGES = ((0, 1, 1, 2, 2, 3, 3, 0), (1, 0, 2, 1, 2, 2, 0, 3))  # one of them is a loop, 2 to 2
Target = tuple[Any, tuple[Any, ...]]


def _graph(device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.randn(4, 8, device=device), torch.tensor(EDGES, device=device)


def gcn_conv(device: torch.device) -> Target:
    from torch_geometric.nn import GCNConv

    return GCNConv(8, 8).to(device).eval().requires_grad_(False), _graph(device)


def gcn_conv_repaired(device: torch.device) -> Target:
    from torch_geometric.nn import GCNConv

    class LoopsByWeight(nn.Module):
        """Append a loop for each node; one that the graph has already gets weight zero and is not removed."""

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
