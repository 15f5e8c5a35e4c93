"""A mixture of experts that sends each token to two experts and keeps an average of their loads."""

import torch
import torch.nn as nn

EXPERTS, WIDTH = 4, 32


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.register_buffer("load", torch.full((EXPERTS,), 1.0 / EXPERTS))

    def forward(self, tokens):
        weights = (self.gate(tokens) - self.load.log()).softmax(-1)
        top, chosen = weights.topk(2, -1)
        share = torch.nn.functional.one_hot(chosen, EXPERTS).float().mean((0, 1))
        self.load = 0.95 * self.load + 0.05 * share
        return top / top.sum(-1, keepdim=True), chosen


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(EXPERTS))
        self.down = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(EXPERTS))

    def forward(self, sorted_tokens, sizes):
        parts = []
        for number, part in enumerate(torch.split(sorted_tokens, sizes)):
            parts.append(self.down[number](torch.relu(self.up[number](part))))
        return torch.cat(parts)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = Router()
        self.experts = Experts()

    def forward(self, tokens):
        weights, chosen = self.router(tokens)
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        counts = torch.nn.functional.one_hot(flat, EXPERTS).sum(0)
        sizes = counts.tolist()
        mixed = self.experts(tokens.repeat_interleave(2, 0)[order], sizes)
        back = torch.empty_like(mixed).index_copy_(0, order, mixed)
        return tokens + (back.view(-1, 2, WIDTH) * weights.unsqueeze(-1)).sum(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.layer = Layer()

    @torch.no_grad()
    def forward(self, tokens):
        return self.layer(self.norm(tokens))


def build(device):
    torch.manual_seed(6)
    return Block().to(device).eval(), (torch.randn(24, WIDTH, device=device),)
