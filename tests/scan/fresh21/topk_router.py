import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, dim=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))
        self.calls = 0

    def jitter(self):
        self.calls += 1
        return 1.0 / self.calls

    def forward(self, x):
        probs = (self.gate(x) * self.jitter()).softmax(-1)
        weight, choice = probs.max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            hit = choice == i
            if not hit.any():
                continue
            out[hit] = expert(x[hit]) * weight[hit].unsqueeze(-1)
        return out


class Block(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.moe = Router(dim)

    def forward(self, x):
        return x + self.moe(self.norm(x))


def build(device):
    torch.manual_seed(1)
    model = Block().to(device).eval().requires_grad_(False)
    return model, (torch.randn(12, 16, device=device),)
