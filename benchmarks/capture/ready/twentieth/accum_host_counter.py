"""Gradient accumulation: one call per micro-batch, and the optimizer runs in every fourth call."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Accumulator:
    def __init__(self, model, every=4):
        self.model = model
        self.every = every
        self.micro = 0
        self.opt = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
        for p in model.parameters():
            p.grad = torch.zeros_like(p)

    def __call__(self, x, y):
        loss = F.mse_loss(self.model(x), y) / self.every
        loss.backward()
        self.micro += 1
        if self.micro % self.every == 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            self.opt.zero_grad(set_to_none=False)
        return loss.detach()


def build(device, batch=8):
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3)).to(device)
    trainer = Accumulator(model)
    x = torch.randn(batch, 12, device=device)
    y = torch.randn(batch, 3, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 12))
        args[1].copy_(torch.randn(batch, 3))

    return graphsafe.Step(trainer, (x, y), refresh=refresh)
