"""Mixture of experts with a fixed capacity, so that every shape is known beforehand."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass(frozen=True)
class RouterConfig:
    dim: int = 24
    experts: int = 4
    capacity: int = 12

    def slots(self) -> int:
        return self.experts * self.capacity


class CapacityMoE(nn.Module):
    def __init__(self, cfg: RouterConfig):
        super().__init__()
        self.cfg = cfg
        self.gate = nn.Linear(cfg.dim, cfg.experts, bias=False)
        self.w_in = nn.Parameter(torch.randn(cfg.experts, cfg.dim, 2 * cfg.dim) * 0.1)
        self.w_out = nn.Parameter(torch.randn(cfg.experts, 2 * cfg.dim, cfg.dim) * 0.1)
        # One more row takes what does not fit.
        self.register_buffer("inbox", torch.zeros(cfg.slots() + 1, cfg.dim), persistent=False)
        self.register_buffer("names", torch.arange(cfg.experts), persistent=False)

    def place(self, choice: torch.Tensor):
        chosen = choice.unsqueeze(1) == self.names
        rank = (chosen.cumsum(0) - 1).gather(1, choice.unsqueeze(1)).squeeze(1)
        fits = rank < self.cfg.capacity
        overflow = torch.full_like(choice, self.cfg.slots())
        return torch.where(fits, choice * self.cfg.capacity + rank, overflow), fits

    def forward(self, x):
        weight, choice = self.gate(x).softmax(-1).max(-1)
        slot, fits = self.place(choice)
        self.inbox.zero_()
        self.inbox.scatter_(0, slot.unsqueeze(1).expand_as(x), x * fits.unsqueeze(1))
        rows = self.inbox[:-1].view(self.cfg.experts, self.cfg.capacity, -1)
        done = torch.bmm(torch.relu(torch.bmm(rows, self.w_in)), self.w_out).flatten(0, 1)
        padded = torch.cat((done, torch.zeros_like(done[:1])))
        return x + weight.unsqueeze(-1) * padded[slot]


def build(device):
    torch.manual_seed(55)
    cfg = RouterConfig()
    model = CapacityMoE(cfg).to(device).eval().requires_grad_(False)
    return model, (torch.randn(40, cfg.dim, device=device),)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args).norm().item())
