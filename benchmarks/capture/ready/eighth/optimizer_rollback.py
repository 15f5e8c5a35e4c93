"""Training that goes back to its last good snapshot when the loss has diverged."""
import copy

import torch
from torch import nn

import graphsafe


class Trainer:
    def __init__(self, device, features):
        self.model = nn.Sequential(nn.Linear(features, 24), nn.Tanh(), nn.Linear(24, 1)).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2, capturable=True)
        self.snapshot = None

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.smooth_l1_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()  # <-A
        return loss.detach()

    def save(self):
        self.snapshot = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))

    def rollback(self):
        weights, moments = copy.deepcopy(self.snapshot)
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(moments)  # <-B


def build(device, batch=8, features=12):
    trainer = Trainer(device, features)
    x = torch.randn(batch, features).to(device)
    y = torch.randn(batch, 1).to(device)
    for _ in range(2):
        trainer.step(x, y)
    trainer.save()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, features))
        args[1].copy_(torch.randn(batch, 1))
        if k % 5 == 4:
            trainer.rollback()

    return graphsafe.Step(trainer.step, (x, y), refresh=refresh)
