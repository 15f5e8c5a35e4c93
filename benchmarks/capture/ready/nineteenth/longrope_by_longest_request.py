"""Rotary embedding of LongRoPE in a batch: faulty, a property of the scheduler picks the long table by host lengths."""
import torch

import graphsafe


class LongRope:
    original = 32

    def __init__(self, device):
        self.short = torch.tensor([1.0, 0.5, 0.2, 0.05], device=device)
        self.long = self.short / torch.tensor([1.0, 1.8, 3.5, 6.0], device=device)
        self.lengths = {"a": 4, "b": 11, "c": 2, "d": 7}
        self.finished = 0

    @property
    def table(self):
        return self.long if max(self.lengths.values()) >= self.original else self.short

    def advance(self):
        for name in list(self.lengths):
            self.lengths[name] += 1
            if self.lengths[name] > 45:
                del self.lengths[name]
                self.finished += 1
                self.lengths[f"{name}{self.finished}"] = 0
        return torch.tensor(list(self.lengths.values()))


def build(device, dim=8):
    rope = LongRope(device)
    projection = torch.randn(dim, dim, device=device) / dim**0.5

    def step(x, positions):
        angles = positions.unsqueeze(1) * rope.table
        even, odd = (x @ projection).chunk(2, -1)
        return torch.cat([even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()], -1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, dim))
        args[1].copy_(rope.advance())

    positions = torch.tensor(list(rope.lengths.values()), device=device)
    return graphsafe.Step(step, (torch.randn(4, dim, device=device), positions), refresh=refresh)
