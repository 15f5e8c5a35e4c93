"""Point clouds of different sizes as a nested tensor: per-point layers, then padding for attention over the points."""
import torch
import torch.nn as nn

import graphsafe

SIZES = [9, 14, 5, 12]


class PointEncoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.lift = nn.Linear(3, width)
        self.query = nn.Parameter(torch.randn(width))
        self.out = nn.Linear(width, 6)

    def forward(self, points):
        lifted = torch.relu(self.lift(points))
        padded = torch.nested.to_padded_tensor(lifted, 0.0)
        live = (padded != 0).any(-1)
        scores = (padded @ self.query).masked_fill(~live, -1e9)
        return self.out((scores.softmax(-1)[..., None] * padded).sum(1)), live.sum(-1)


class Scene:
    def __init__(self, device):
        self.encoder = PointEncoder().to(device).requires_grad_(False)
        self.parts = [torch.randn(n, 3, device=device) for n in SIZES]
        self.centre = torch.zeros(3, device=device)

    def step(self):
        cloud = torch.nested.as_nested_tensor([p - self.centre for p in self.parts])
        classes, live = self.encoder(cloud)
        self.centre.lerp_(torch.cat(self.parts).mean(0), 0.1)
        return classes, live

    def scan(self, args, kwargs, k):
        for part in self.parts:
            part.copy_(torch.randn(part.shape) + 0.1 * (k % 7))


def build(device):
    scene = Scene(device)
    return graphsafe.Step(scene.step, (), {}, refresh=scene.scan)
