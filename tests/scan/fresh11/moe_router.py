"""Top-1 mixture-of-experts feed-forward block."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MoEConfig:
    dim: int = 32
    hidden: int = 64
    experts: int = 4
    tokens: int = 48


class Expert(nn.Module):
    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class Dispatcher:
    """Sorts tokens by expert so that every expert sees one contiguous run."""

    def __init__(self, experts: int):
        self.experts = experts

    def arrange(self, x, choice):
        order = choice.argsort(stable=True)
        load = F.one_hot(choice, self.experts).sum(0)
        return order, load, x[order]

    def restore(self, order, pieces):
        merged = torch.cat(pieces)
        return torch.empty_like(merged).index_copy_(0, order, merged)


class MoEBlock(nn.Module):
    def __init__(self, cfg: MoEConfig):
        super().__init__()
        self.router = nn.Linear(cfg.dim, cfg.experts, bias=False)
        self.experts = nn.ModuleList(Expert(cfg.dim, cfg.hidden) for _ in range(cfg.experts))
        self.dispatcher = Dispatcher(cfg.experts)
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, x):
        gate, choice = self.router(x).softmax(-1).max(-1)
        order, load, rows = self.dispatcher.arrange(self.norm(x), choice)
        sizes = load.tolist()
        pieces = [expert(part) for expert, part in zip(self.experts, rows.split(sizes))]
        return x + gate.unsqueeze(-1) * self.dispatcher.restore(order, pieces)


def build(device):
    torch.manual_seed(21)
    cfg = MoEConfig()
    block = MoEBlock(cfg).to(device).eval().requires_grad_(False)
    return block, (torch.randn(cfg.tokens, cfg.dim, device=device),)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args).shape)
