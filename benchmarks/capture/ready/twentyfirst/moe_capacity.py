"""Mixture of experts with a fixed capacity (GShard dispatch and combine)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class MoE(nn.Module):
    def __init__(self, dim=16, hidden=32, experts=4, top_k=2, capacity=8):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) * 0.1)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, dim) * 0.1)
        self.experts, self.top_k, self.capacity = experts, top_k, capacity

    def forward(self, x):
        n, d = x.shape
        gates = self.router(x).softmax(-1)
        weight, choice = gates.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        flat = choice.t().reshape(-1)
        onehot = F.one_hot(flat, self.experts)
        place = ((onehot.cumsum(0) - 1) * onehot).sum(-1)
        kept = place < self.capacity
        slot = torch.where(kept, flat * self.capacity + place, self.experts * self.capacity)
        buf = x.new_zeros(self.experts * self.capacity + 1, d)
        buf.index_copy_(0, slot, x.repeat(self.top_k, 1))
        inp = buf[:-1].view(self.experts, self.capacity, d)
        out = torch.bmm(F.silu(torch.bmm(inp, self.w1)), self.w2).reshape(-1, d)
        out = torch.cat([out, out.new_zeros(1, d)])
        picked = out[slot].view(self.top_k, n, d)
        return (picked * weight.t().unsqueeze(-1)).sum(0)


def build(device):
    torch.manual_seed(6)
    layer = MoE().to(device).eval().requires_grad_(False)
    x = torch.randn(12, 16, device=device)
    return layer, (x,)
