"""Gumbel-softmax bottleneck; the trainer anneals the temperature between steps (a float attribute)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class GumbelBottleneck(nn.Module):
    def __init__(self, dim=16, groups=4, codes=8):
        super().__init__()
        self.groups, self.codes = groups, codes
        self.tau = 2.0
        self.enc = nn.Linear(dim, groups * codes)
        self.dec = nn.Linear(groups * codes, dim)

    def forward(self, x):
        logits = self.enc(x).view(-1, self.groups, self.codes)
        y = F.gumbel_softmax(logits, tau=self.tau, hard=False, dim=-1)
        return self.dec(y.flatten(1))


class Trainer:
    def __init__(self, device):
        self.model = GumbelBottleneck().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.global_step = 0

    def on_batch_end(self):
        self.global_step += 1
        self.model.tau = max(0.5, 2.0 * math.exp(-1e-3 * self.global_step))

    def train_step(self, x):
        self.opt.zero_grad(set_to_none=True)
        out = self.model(x)
        loss = F.mse_loss(out, x)
        loss.backward()
        self.opt.step()
        return loss.detach(), out.detach()


def build(device):
    torch.manual_seed(22)
    trainer = Trainer(device)
    x = torch.randn(16, 16, device=device)

    def refresh(args, kwargs, k):
        trainer.on_batch_end()
        args[0].copy_(torch.randn(16, 16))

    return graphsafe.Step(trainer.train_step, (x,), refresh=refresh)
