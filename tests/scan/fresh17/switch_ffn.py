"""Token-choice mixture of experts with a load-tracking router."""
import torch
import torch.nn.functional as F
from torch import nn


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w13 = nn.Linear(dim, 2 * hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, up = self.w13(x).chunk(2, dim=-1)
        return self.w2(F.silu(gate) * up)


class SwitchFFN(nn.Module):
    def __init__(self, dim=32, hidden=48, n_experts=4, k=2, capacity=12):
        super().__init__()
        self.n_experts, self.k, self.capacity = n_experts, k, capacity
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(SwiGLU(dim, hidden) for _ in range(n_experts))
        self.register_buffer("load_avg", torch.zeros(n_experts))

    def forward(self, x):
        probs = self.router(x).softmax(dim=-1)
        weight, chosen = probs.topk(self.k, dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        load = torch.bincount(chosen.flatten(), minlength=self.n_experts)
        self.load_avg = 0.9 * self.load_avg + 0.1 * load
        probs = probs - 0.01 * self.load_avg
        if load.max() > self.capacity:
            weight = weight * (self.capacity / load.max())
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == e)
            if rows.numel() == 0:
                continue
            y = expert(x.index_select(0, rows))
            out.index_add_(0, rows, y * weight[rows, slots].unsqueeze(-1))
        return out + probs.mean()


def build(device):
    torch.manual_seed(0)
    layer = SwitchFFN().to(device).eval().requires_grad_(False)
    return layer, (torch.randn(16, 32, device=device),)
