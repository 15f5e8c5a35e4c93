"""Message passing with index_add over an edge list of fixed size, node features from an embedding bag."""
import torch
import torch.nn as nn

import graphsafe


class SAGEConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.self_lin = nn.Linear(dim, dim)
        self.neigh = nn.Linear(dim, dim, bias=False)

    def forward(self, x, src, dst, edge_mask):
        n, d = x.shape
        msg = x[src] * edge_mask.unsqueeze(-1)
        agg = torch.zeros(n, d, device=x.device, dtype=x.dtype).index_add_(0, dst, msg)
        deg = torch.zeros(n, device=x.device, dtype=x.dtype).index_add_(0, dst, edge_mask)
        top = torch.full((n, d), -1e4, device=x.device).scatter_reduce(
            0, dst.unsqueeze(-1).expand(-1, d), msg, reduce="amax", include_self=True
        )
        mean = agg / deg.clamp_min(1).unsqueeze(-1)
        return torch.relu(self.self_lin(x) + self.neigh(mean) + 0.1 * top.clamp_min(-1))


class Model(nn.Module):
    def __init__(self, vocab=50, dim=16):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean", include_last_offset=True)
        self.c1, self.c2 = SAGEConv(dim), SAGEConv(dim)
        self.out = nn.Linear(dim, 3)

    def forward(self, tokens, offsets, src, dst, edge_mask):
        x = self.bag(tokens, offsets)
        x = self.c1(x, src, dst, edge_mask)
        return self.out(self.c2(x, src, dst, edge_mask)).log_softmax(-1)


def build(device, n=12, m=40, tokens=48):
    torch.manual_seed(6)
    model = Model().to(device).eval().requires_grad_(False)
    args = (
        torch.randint(50, (tokens,), device=device),
        torch.arange(0, tokens + 1, tokens // n, device=device),
        torch.randint(n, (m,), device=device),
        torch.randint(n, (m,), device=device),
        torch.ones(m, device=device),
    )

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(50, (tokens,)))
        args[2].copy_(torch.randint(n, (m,)))
        args[3].copy_(torch.randint(n, (m,)))
        args[4].copy_((torch.rand(m) < 0.8).float())

    return graphsafe.Step(model, args, refresh=refresh)
