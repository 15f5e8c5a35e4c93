"""Gradient accumulation over four micro-batches; the loop drops the gradients between optimizer steps."""
import torch
from torch import nn

import graphsafe


class Micro:
    def __init__(self, device):
        torch.manual_seed(16)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
        self.params = list(self.model.parameters())

    def step(self, x, y):
        loss = (self.model(x) - y).square().mean() / 4
        loss.backward()  # LINE: adds to, or makes, the gradients: whichever was so at capture
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        return loss.detach(), norm

    def finish(self):
        with torch.no_grad():
            for p in self.params:
                if p.grad is not None:
                    p.sub_(p.grad, alpha=0.05)
                p.grad = None


def build(device):
    micro = Micro(device)
    x, y = torch.randn(8, 8, device=device), torch.randn(8, 1, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 8))
        args[1].copy_(torch.randn(8, 1))
        if k % 4 == 0:
            micro.finish()

    return graphsafe.Step(micro.step, (x, y), refresh=refresh)
