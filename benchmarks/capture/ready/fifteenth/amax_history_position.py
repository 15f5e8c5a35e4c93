"""Delayed scaling with a history of maxima; the meta object keeps the place of the next entry."""
import torch

import graphsafe


class ScalingMeta:
    def __init__(self, device, length=8):
        self.history = torch.zeros(length, device=device)
        self.scale = torch.ones((), device=device)
        self.position = 0

    def observe(self, x):
        self.history[self.position].copy_(x.abs().amax())
        self.position = (self.position + 1) % len(self.history)

    def update(self):
        self.scale.copy_(self.history.amax().clamp_min(1e-6) / 127)

    def quantise(self, x):
        codes = torch.round(x / self.scale).clamp(-127, 127)
        self.observe(x)
        return codes * self.scale


class Block:
    def __init__(self, device, dim):
        self.up = torch.randn(dim, 2 * dim, device=device) / dim**0.5
        self.down = torch.randn(2 * dim, dim, device=device) / dim**0.5
        self.meta_in, self.meta_mid = ScalingMeta(device), ScalingMeta(device)

    def __call__(self, x):
        mid = torch.relu(self.meta_in.quantise(x) @ self.up)
        out = x + self.meta_mid.quantise(mid) @ self.down
        self.meta_in.update()
        self.meta_mid.update()
        return out


def build(device):
    blocks = [Block(device, 8) for _ in range(2)]

    def step(x):
        for block in blocks:
            x = block(x)
        return x, torch.stack([b.meta_in.scale for b in blocks])

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8) * (1 + k % 13 / 4))

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)
