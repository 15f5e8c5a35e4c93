"""Gradient accumulation: the optimizer steps on every fourth micro-batch."""
import torch
import torch.nn as nn

import graphsafe


class Accumulator:
    def __init__(self, device, every=4):
        self.model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1)).to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.every = every
        self.micro_step = 0
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    def train_step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x).squeeze(-1), y) / self.every
        loss.backward()
        self.micro_step += 1
        if self.micro_step % self.every == 0:
            self.opt.step()
            self.opt.zero_grad(set_to_none=False)
        return loss.detach() * self.every


def build(device):
    torch.manual_seed(1)
    acc = Accumulator(device)
    x = torch.randn(8, 12, device=device)
    y = torch.randn(8, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 12))
        args[1].copy_(torch.randn(8))

    return graphsafe.Step(acc.train_step, (x, y), refresh=refresh)
