"""Gradient accumulation inside one step: four micro-batches, then clipping by value and norm, then Adam."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Trainer:
    def __init__(self, device, accum=4, micro=4):
        self.accum, self.micro = accum, micro
        self.model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3)).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3, capturable=True)
        self.loss = torch.zeros((), device=device)
        self.steps_done = 0  # for the progress bar only

    def train_step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        self.loss.zero_()
        for xb, yb in zip(x.chunk(self.accum), y.chunk(self.accum)):
            loss = F.smooth_l1_loss(self.model(xb), yb) / self.accum
            loss.backward()
            self.loss += loss.detach()
        torch.nn.utils.clip_grad_value_(self.model.parameters(), 0.5)
        grad_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.steps_done += 1
        return self.loss, grad_norm


def build(device):
    t = Trainer(device)
    n = t.accum * t.micro
    x, y = torch.randn(n, 12, device=device), torch.randn(n, 3, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 12))
        args[1].copy_(torch.randn(n, 3))

    return graphsafe.Step(t.train_step, (x, y), refresh=refresh)
