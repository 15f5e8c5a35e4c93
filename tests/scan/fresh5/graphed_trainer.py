"""Fine-tuning with torch.cuda.make_graphed_callables around the backbone."""
from __future__ import annotations

import copy
from collections import deque

import torch
from torch import nn
from torch.nn import functional as F


class Backbone(nn.Module):
    def __init__(self, inputs: int, dim: int, depth: int = 4):
        super().__init__()
        self.inp = nn.Linear(inputs, dim)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU()) for _ in range(depth))

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = h + block(h)
        return h


class Unfreezer:
    """Top block first, one more every `every` steps."""

    def __init__(self, backbone: Backbone, every: int):
        self.order = list(reversed(backbone.blocks))
        self.every = every
        backbone.requires_grad_(False)
        self.order[0].requires_grad_(True)

    def __call__(self, step: int) -> None:
        n, rest = divmod(step, self.every)
        if rest == 0 and 0 < n < len(self.order):
            self.order[n].requires_grad_(True)


class BestKeeper:
    def __init__(self, module: nn.Module):
        self.module = module
        self.best = float("inf")
        self.saved = copy.deepcopy(module.state_dict())

    def consider(self, value: float) -> None:
        if value < self.best:
            self.best = value
            self.saved = copy.deepcopy(self.module.state_dict())
        else:
            self.module.load_state_dict(self.saved, assign=True)


class FineTuner:
    def __init__(self, backbone: Backbone, classes: int, dim: int, sample: torch.Tensor):
        self.unfreeze = Unfreezer(backbone, every=10)
        self.backbone = backbone
        self.head = nn.Linear(dim, classes).to(sample.device)
        self.features = torch.cuda.make_graphed_callables(backbone, (sample,))
        self.keeper = BestKeeper(backbone)
        self.memory: deque[torch.Tensor] = deque(maxlen=4)
        params = [*backbone.parameters(), *self.head.parameters()]
        self.opt = torch.optim.Adam(params, lr=1e-3)
        self.total = torch.zeros((), device=sample.device)

    def step(self, index: int, x: torch.Tensor, y: torch.Tensor) -> None:
        h = self.features(x)
        loss = F.cross_entropy(self.head(h), y)
        if self.memory:
            anchor = torch.stack(tuple(self.memory)).mean(0)
            loss = loss + 0.01 * (h - anchor).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.memory.append(h.detach())
        self.total.add_(loss.detach())
        self.unfreeze(index)

    def epoch_end(self, steps: int) -> float:
        mean = float(self.total) / steps
        self.total.zero_()
        self.keeper.consider(mean)
        return mean


def main(device="cuda", epochs: int = 3, steps: int = 12, rows: int = 16):
    torch.manual_seed(0)
    backbone = Backbone(8, 32).to(device)
    tuner = FineTuner(backbone, 3, 32, torch.randn(rows, 8, device=device))
    curve = []
    for epoch in range(epochs):
        for i in range(steps):
            x = torch.randn(rows, 8, device=device)
            tuner.step(epoch * steps + i, x, x[:, :3].argmax(-1))
        curve.append(tuner.epoch_end(steps))
    return curve


if __name__ == "__main__":
    print(main())
