"""Training-time augmentation with the host's random numbers: flip, crop, cutout."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class RandomAugment:
    def __init__(self, size, pad=2, hole=4):
        self.size, self.pad, self.hole = size, pad, hole

    def __call__(self, x):
        if random.random() < 0.5:
            x = x.flip(-1)
        x = F.pad(x, (self.pad,) * 4, mode="reflect")
        top, left = random.randint(0, 2 * self.pad), random.randint(0, 2 * self.pad)
        x = x[..., top : top + self.size, left : left + self.size].clone()
        cy, cx = random.randrange(self.size - self.hole), random.randrange(self.size - self.hole)
        x[..., cy : cy + self.hole, cx : cx + self.hole] = 0
        return x


def build(device, size=16):
    torch.manual_seed(17)
    aug = RandomAugment(size)
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.Flatten())
    backbone = backbone.to(device).eval().requires_grad_(False)
    x = torch.randn(4, 3, size, size, device=device)

    def step(x):
        """Two views, as in SimCLR."""
        a, b = backbone(aug(x)), backbone(aug(x))
        a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        return a @ b.t() / 0.5

    return graphsafe.Step(step, (x,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(4, 3, size, size)))
