"""Router on coarse (rounded) scores, so that ties abound: top-k values, stable order, capacity by rank within the expert."""
import torch
import torch.nn as nn

import graphsafe

TOKENS, EXPERTS, CAPACITY = 64, 8, 12


class CoarseRouter(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.gate = nn.Linear(width, EXPERTS)
        self.experts = nn.Parameter(torch.randn(EXPERTS, width, width) / 4)
        self.register_buffer("bias", torch.zeros(EXPERTS))
        self.register_buffer("usage", torch.zeros(EXPERTS, dtype=torch.long))

    def forward(self, x):
        scores = (self.gate(x).sigmoid() * 8).round() / 8
        ranked, order = (scores + self.bias).sort(dim=-1, descending=True, stable=True)
        chosen = order[:, 0]
        best = scores.topk(2, -1).values
        by_expert, permutation = chosen.sort(stable=True)
        first = torch.searchsorted(by_expert, torch.arange(EXPERTS, device=x.device))
        rank = torch.arange(TOKENS, device=x.device) - first[by_expert]
        kept = torch.zeros(TOKENS, dtype=torch.bool, device=x.device).scatter(0, permutation, rank < CAPACITY)
        y = torch.einsum("tw,twv->tv", x, self.experts[chosen])
        load = torch.zeros(EXPERTS, dtype=torch.long, device=x.device).scatter_add_(0, chosen, torch.ones_like(chosen))
        self.usage.add_(load)
        self.bias.add_(torch.sign(TOKENS // EXPERTS - load), alpha=0.125)
        return torch.where(kept[:, None], y, x), best, load


def build(device):
    router = CoarseRouter().to(device).eval().requires_grad_(False)
    x = torch.randn(TOKENS, 16, device=device)

    def reset():
        router.bias.zero_()
        router.usage.zero_()

    return graphsafe.Step(router, (x,), {}, refresh=lambda args, kwargs, k: args[0].copy_((torch.randn(TOKENS, 16) * 4).round() / 4), reset=reset)
