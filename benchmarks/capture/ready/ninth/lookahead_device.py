"""Lookahead: fast weights train every step; every tenth optimizer step they are pulled to the slow ones, on the device."""
import torch
from torch import nn

import graphsafe


class Lookahead:
    def __init__(self, model, optimizer, device, every=10, pull=0.5):
        self.parameters = list(model.parameters())
        self.slow = [p.detach().clone() for p in self.parameters]
        self.every, self.pull = every, pull
        self.steps = torch.zeros((), dtype=torch.int64, device=device)
        optimizer.register_step_post_hook(self.sync)

    @torch.no_grad()
    def sync(self, optimizer, args, kwargs):
        self.steps.add_(1)
        due = self.steps % self.every == 0
        for slow, fast in zip(self.slow, self.parameters):
            slow.copy_(torch.where(due, torch.lerp(slow, fast, self.pull), slow))
            fast.copy_(torch.where(due, slow, fast))


def build(device, batch=16, width=8):
    model = nn.Sequential(nn.Linear(width, 24), nn.SiLU(), nn.Linear(24, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)
    Lookahead(model, optimizer, device)
    x = torch.randn(batch, width).to(device)
    y = torch.randn(batch, 1).to(device)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        args[1].copy_(args[0].sum(1, keepdim=True).sin())

    return graphsafe.Step(step, (x, y), refresh=refresh)
