"""Set pooling over the agents of a scene: the mask of those that are alive is pinned, and counted on the device."""
import torch
from torch import nn

import graphsafe


class ScenePool(nn.Module):
    def __init__(self, agents, width, device):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)).to(device)
        self.score = nn.Linear(width, 1).to(device)
        self.busiest = 0
        self.alive = torch.zeros(agents, dtype=torch.bool, device=device)

    def forward(self, states, alive):
        self.alive.copy_(alive, non_blocking=True)
        self.busiest = max(self.busiest, int(alive.sum()))  # for the log
        count = self.alive.sum().clamp(min=1)
        hidden = self.encode(states) * self.alive[:, None]
        scene = hidden.sum(dim=0) / count
        scores = self.score(torch.tanh(hidden + scene)).squeeze(-1)
        return scene, scores.masked_fill(~self.alive, 0.0)


def build(device, agents=12, width=10):
    model = ScenePool(agents, width, device).eval().requires_grad_(False)
    states = torch.randn(agents, width).to(device)
    alive = torch.arange(agents) < 8
    if device.type == "cuda":
        alive = alive.pin_memory()
    return graphsafe.Step(model, (states, alive))


def drive(args, kwargs, k):  # real traffic, for the oracle: agents come and go
    args[0].copy_(torch.randn(args[0].shape))
    args[1].copy_(torch.rand(args[1].shape) < 0.4 + 0.1 * (k % 5))
