"""Graph convolution on a sparse adjacency that is built from the batch's edge list."""
import torch
import torch.nn as nn

import graphsafe


class GCNLayer(nn.Module):
    def __init__(self, din, dout):
        super().__init__()
        self.lin = nn.Linear(din, dout)

    def forward(self, x, edges, weight):
        n = x.shape[0]
        adj = torch.sparse_coo_tensor(edges, weight, (n, n), check_invariants=False).coalesce()
        deg = torch.sparse.sum(adj, dim=1).to_dense().clamp_min(1e-6)
        return torch.sparse.mm(adj, self.lin(x)) / deg.unsqueeze(1)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = GCNLayer(8, 16)
        self.b = GCNLayer(16, 4)

    def forward(self, x, edges, weight):
        return self.b(torch.relu(self.a(x, edges, weight)), edges, weight)


def build(device, n=20, m=60):
    torch.manual_seed(14)
    model = GCN().to(device).eval().requires_grad_(False)
    x = torch.randn(n, 8, device=device)
    edges = torch.randint(n, (2, m), device=device)
    weight = torch.rand(m, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 8))
        args[1].copy_(torch.randint(n, (2, m)))
        args[2].copy_(torch.rand(m))

    return graphsafe.Step(model, (x, edges, weight), refresh=refresh)
