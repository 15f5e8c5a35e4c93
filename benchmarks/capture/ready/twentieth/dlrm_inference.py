"""DLRM inference: bottom MLP, EmbeddingBags with offsets, pairwise dot interaction, top MLP."""
import torch
import torch.nn as nn

import graphsafe


def mlp(*sizes):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class DLRM(nn.Module):
    def __init__(self, dense=5, tables=(30, 50, 20), d=8):
        super().__init__()
        self.bottom = mlp(dense, 16, d)
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, d, mode="sum", include_last_offset=True) for n in tables)
        n = len(tables) + 1
        i, j = torch.tril_indices(n, n, -1)
        self.register_buffer("pick", i * n + j)
        self.top = mlp(d + n * (n - 1) // 2, 16, 1)

    def forward(self, dense, indices, offsets):
        x = self.bottom(dense)
        feats = [x] + [bag(i, o) for bag, i, o in zip(self.bags, indices, offsets)]
        t = torch.stack(feats, 1)
        z = torch.bmm(t, t.mT).flatten(1).index_select(1, self.pick)
        return torch.sigmoid(self.top(torch.cat([x, z], 1)))


def build(device, batch=4, per_bag=3):
    tables = (30, 50, 20)
    model = DLRM(tables=tables).to(device).eval().requires_grad_(False)
    dense = torch.randn(batch, 5, device=device)
    n = batch * per_bag
    indices = [torch.randint(0, t, (n,), device=device) for t in tables]
    offsets = [torch.arange(0, n + 1, per_bag, device=device) for _ in tables]

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 5))
        for t, idx, off in zip(tables, args[1], args[2]):
            idx.copy_(torch.randint(0, t, (n,)))
            cuts = torch.randint(0, n + 1, (batch - 1,)).sort().values
            off[1:-1].copy_(cuts)

    return graphsafe.Step(model, (dense, indices, offsets), refresh=refresh)
