"""Graph convolution that makes its sparse adjacency in the step from a static edge list; the size is left to torch."""
import torch
import torch.nn as nn

import graphsafe

NODES, EDGES = 60, 400


class GraphConvolution(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 32), nn.Linear(32, width)

    def propagate(self, edges, weights, x):
        adjacency = torch.sparse_coo_tensor(edges, weights, is_coalesced=True)
        return torch.sparse.mm(adjacency, x)

    def forward(self, edges, weights, x):
        degree = torch.zeros(NODES, device=x.device).index_add_(0, edges[0], weights)
        weights = weights * (degree + 1e-3).rsqrt()[edges[0]]
        hidden = torch.relu(self.inner(self.propagate(edges, weights, x)))
        return self.outer(self.propagate(edges, weights, hidden))


def sorted_edges():
    """All different, in row-major order; the last node always has a loop."""
    flat = torch.randperm(NODES * NODES - 1)[: EDGES - 1].sort().values
    flat = torch.cat([flat, torch.tensor([NODES * NODES - 1])])
    return torch.stack([flat // NODES, flat % NODES])


def build(device):
    layer = GraphConvolution().to(device).requires_grad_(False)
    args = sorted_edges().to(device), torch.rand(EDGES, device=device), torch.randn(NODES, 16, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(sorted_edges())
        args[1].copy_(torch.rand(EDGES))
        args[2].copy_(torch.randn(NODES, 16))

    return graphsafe.Step(layer, args, {}, refresh=refresh)
