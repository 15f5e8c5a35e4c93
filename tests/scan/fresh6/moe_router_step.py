"""Mixture-of-experts block of a decoder, with capacity statistics for the autoscaler."""
import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Schedule:
    """Cools the router down towards hard choices."""

    def __init__(self, start: float = 2.0, floor: float = 0.5, rate: float = 0.97):
        self.value, self.floor, self.rate = start, floor, rate

    def tick(self) -> None:
        self.value = max(self.floor, self.value * self.rate)


class Router(nn.Module):
    def __init__(self, width: int, experts: int, top: int):
        super().__init__()
        self.score = nn.Linear(width, experts, bias=False)
        self.top = top
        self.schedule = Schedule()

    def forward(self, x):
        logits = self.score(x) / self.schedule.value
        weight, chosen = logits.softmax(-1).topk(self.top, dim=-1)
        return weight / weight.sum(-1, keepdim=True), chosen


class Load:
    """Tokens by expert; the shared ones are watched apart."""

    def __init__(self, experts: int, shared: list[int], device):
        self.counts = torch.zeros(experts, device=device)
        self.shared = shared

    def note(self, chosen):
        ones = torch.ones_like(chosen.flatten(), dtype=self.counts.dtype)
        self.counts.scatter_add_(0, chosen.flatten(), ones)

    def share(self):
        return self.counts[self.shared].sum() / self.counts.sum()


class MoEBlock(nn.Module):
    def __init__(self, width=64, experts=8, top=2, shared=(0, 3), device="cpu"):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = Router(width, experts, top)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))
        self.load = Load(experts, list(shared), device)

    def dispatch(self, x, weight, chosen):
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, nth = torch.where(chosen == number)
            part = expert(x.index_select(0, token))
            y.index_add_(0, token, part * weight[token, nth].unsqueeze(-1))
        return y

    def forward(self, x):
        h = self.norm(x)
        weight, chosen = self.router(h)
        self.load.note(chosen)
        y = x + self.dispatch(h, weight, chosen)
        self.router.schedule.tick()
        return y, self.load.share()


def build(device):
    torch.manual_seed(5)
    block = MoEBlock(device=device).to(device).eval().requires_grad_(False)
    return block, (torch.randn(16, 64, device=device),)
