"""Mixture-of-experts decode block with a fixed capacity for each expert."""
import torch
from torch import nn
from torch.nn import functional as F


class Router(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x):
        weights = self.gate(x).softmax(dim=-1)
        top, chosen = weights.topk(2, dim=-1)
        return top / top.sum(dim=-1, keepdim=True), chosen


class ExpertBank(nn.Module):
    def __init__(self, width, hidden, experts):
        super().__init__()
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * 0.1)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.1)

    def forward(self, packed):
        return torch.bmm(F.silu(torch.bmm(packed, self.up)), self.down)


class LoadMeter:
    """Running share of tokens that each expert receives."""

    def __init__(self, experts, device, momentum=0.9):
        self.share = torch.full((experts,), 1.0 / experts, device=device)
        self.momentum = momentum

    def update(self, one_hot):
        now = one_hot.sum(dim=0) / one_hot.sum()
        self.share.mul_(self.momentum).add_(now, alpha=1.0 - self.momentum)


class MoEBlock:
    def __init__(self, width=32, hidden=48, experts=4, capacity=8, device="cpu"):
        self.router = Router(width, experts).to(device)
        self.bank = ExpertBank(width, hidden, experts).to(device)
        self.norm = nn.LayerNorm(width).to(device)
        self.meter = LoadMeter(experts, device)
        self.experts = experts
        self.capacity = capacity
        self.spare = experts * capacity
        self.labels = torch.arange(experts, device=device)
        self.buffer = torch.zeros(self.spare + 1, width, device=device)

    def _positions(self, flat):
        one_hot = (flat[:, None] == self.labels).to(torch.float32)
        self.meter.update(one_hot)
        rank = (one_hot.cumsum(dim=0) - one_hot).gather(1, flat[:, None]).squeeze(1).long()
        cell = flat * self.capacity + rank
        inside = rank < self.capacity
        return torch.where(inside, cell, self.spare), inside

    @torch.no_grad()
    def __call__(self, x):
        h = self.norm(x)
        weights, chosen = self.router(h)
        cells, inside = self._positions(chosen.flatten())
        self.buffer.zero_()
        self.buffer.index_copy_(0, cells, h.repeat_interleave(2, dim=0) * inside[:, None])
        packed = self.buffer[: self.spare].view(self.experts, self.capacity, -1)
        mixed = self.bank(packed).reshape(self.spare, -1)
        mixed = F.pad(mixed, (0, 0, 0, 1))
        back = mixed.index_select(0, cells) * weights.flatten()[:, None]
        return x + back.view(x.shape[0], 2, -1).sum(dim=1), self.meter.share.clone()


def build(device):
    torch.manual_seed(8)
    block = MoEBlock(device=device)
    x = torch.randn(10, 32, device=device)
    return block, (x,)
