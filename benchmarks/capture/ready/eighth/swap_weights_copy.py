"""Blue/green weights: the staged set is loaded in the background and its values exchanged with the live set's."""
import torch
from torch import nn

import graphsafe


class Engine:
    def __init__(self, device, width):
        self.live = self.make(width).to(device)
        self.staged = self.make(width).to(device)

    @staticmethod
    def make(width):
        return nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)).eval().requires_grad_(False)

    def load(self):
        for p in self.staged.parameters():
            p.copy_(0.3 * torch.randn(p.shape))

    def exchange(self):
        for a, b in zip(self.live.parameters(), self.staged.parameters()):
            spare = a.clone()
            a.copy_(b)
            b.copy_(spare)

    def step(self, x):
        return x + self.live(x)


def build(device, batch=4, width=16):
    engine = Engine(device, width)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 5 == 4:
            engine.load()
            engine.exchange()

    return graphsafe.Step(engine.step, (x,), refresh=refresh)
