"""Lookahead: fast weights train every step; every tenth optimizer step they are pulled to the slow ones, between steps."""
import torch
from torch import nn

import graphsafe


class Lookahead:
    def __init__(self, model, optimizer, every=10, pull=0.5):
        self.parameters = list(model.parameters())
        self.slow = [p.detach().clone() for p in self.parameters]
        self.every, self.pull, self.fast_steps = every, pull, 0
        optimizer.register_step_post_hook(self.count)

    def count(self, optimizer, args, kwargs):
        self.fast_steps += 1  # <-A

    @torch.no_grad()
    def maybe_sync(self):
        if self.fast_steps % self.every == 0 and self.fast_steps:  # <-B
            for slow, fast in zip(self.slow, self.parameters):
                slow.lerp_(fast, self.pull)
                fast.copy_(slow)


def build(device, batch=16, width=8):
    model = nn.Sequential(nn.Linear(width, 24), nn.SiLU(), nn.Linear(24, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)
    lookahead = Lookahead(model, optimizer)
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
        lookahead.maybe_sync()

    return graphsafe.Step(step, (x, y), refresh=refresh)
