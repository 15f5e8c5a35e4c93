"""A mixture of experts that sorts tokens by expert and works on one segment after the other."""

import torch
import torch.nn as nn

TOKENS, WIDTH, EXPERTS = 48, 20, 4


class SegmentedExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.weight = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH) / WIDTH**0.5)
        self.gain = nn.Parameter(torch.randn(EXPERTS, WIDTH))

    def forward(self, x):
        gate, expert = self.router(x).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        counts = torch.bincount(expert, minlength=EXPERTS)
        ends = counts.cumsum(0)
        tokens = x[order]
        parts = []
        for number in range(EXPERTS):
            stop = ends[number]
            start = stop - counts[number]
            parts.append(tokens[start:stop] @ self.weight[number])
        gains = torch.repeat_interleave(self.gain, counts, dim=0)
        mixed = torch.cat(parts) * gains.sigmoid()
        return torch.empty_like(x).index_copy(0, order, mixed) * gate.unsqueeze(-1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.experts = SegmentedExperts()
        self.shared = nn.Linear(WIDTH, WIDTH)

    @torch.no_grad()
    def forward(self, x):
        hidden = self.norm(x)
        return x + self.shared(hidden).relu() + self.experts(hidden)


def build(device):
    torch.manual_seed(15)
    return Layer().to(device).eval(), (torch.randn(TOKENS, WIDTH, device=device),)
