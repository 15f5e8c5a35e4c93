"""Message passing with random edge dropout and ragged pooling over the graphs of a batch."""
import functools

import numpy as np
import torch
import torch.nn as nn


def residual(fn):
    @functools.wraps(fn)
    def inner(self, h, *rest):
        return h + fn(self, h, *rest)
    return inner


class EdgeDrop:
    def __init__(self, rate, seed=0):
        self.rate = rate
        self.rng = np.random.default_rng(seed)

    def keep(self):
        return 1.0 - self.rate * self.rng.random()

    def __call__(self, weight):
        return weight * (torch.rand_like(weight) < self.keep())


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.msg = nn.Linear(2 * d, d)
        self.upd = nn.Linear(d, d)

    @residual
    def forward(self, h, src, dst, weight):
        m = torch.relu(self.msg(torch.cat([h[src], h[dst]], -1))) * weight.unsqueeze(-1)
        agg = torch.zeros_like(h).index_add_(0, dst, m)
        return self.upd(agg)


class RaggedPool(nn.Module):
    """Means over every graph, then the largest graph's nodes padded out for a small attention."""

    def __init__(self, d):
        super().__init__()
        self.query = nn.Parameter(torch.randn(d) / d ** 0.5)

    def forward(self, h, sizes):
        owner = torch.repeat_interleave(torch.arange(sizes.shape[0], device=h.device), sizes)
        total = h.new_zeros(sizes.shape[0], h.shape[1]).index_add_(0, owner, h[:owner.shape[0]])
        mean = total / sizes.unsqueeze(1)
        start = sizes.cumsum(0) - sizes
        slot = torch.arange(sizes.max(), device=h.device)
        inside = slot.unsqueeze(0) < sizes.unsqueeze(1)
        idx = (start.unsqueeze(1) + slot).clamp(max=h.shape[0] - 1)
        nodes = h[idx]
        score = (nodes @ self.query).masked_fill(~inside, -1e9).softmax(-1)
        return mean + (score.unsqueeze(-1) * nodes).sum(1)


class GraphNet(nn.Module):
    def __init__(self, d=48, depth=3, drop=0.2):
        super().__init__()
        self.layers = nn.ModuleList(Layer(d) for _ in range(depth))
        self.pool = RaggedPool(d)
        self.read = nn.Linear(d, 1)
        self.drop = EdgeDrop(drop)

    def forward(self, h, src, dst, weight, sizes):
        weight = self.drop(weight)
        for layer in self.layers:
            h = layer(h, src, dst, weight)
        return self.read(self.pool(h, sizes))


def build(device):
    torch.manual_seed(1)
    sizes = torch.tensor([5, 9, 3, 7, 8], device=device)
    n, e = 32, 120
    net = GraphNet().to(device).requires_grad_(False)
    h = torch.randn(n, 48, device=device)
    src = torch.randint(n, (e,), device=device)
    dst = torch.randint(n, (e,), device=device)
    return net, (h, src, dst, torch.rand(e, device=device), sizes)
