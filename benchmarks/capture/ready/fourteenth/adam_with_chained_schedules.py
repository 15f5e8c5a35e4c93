"""Training with Adam whose rate is a device tensor; a chain of schedulers changes it between steps, in place."""
import torch
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

import graphsafe


class Loop:
    def __init__(self, device):
        cuda = device.type == "cuda"
        self.model = nn.Sequential(nn.Linear(8, 24), nn.SiLU(), nn.Linear(24, 1)).to(device)
        rate = torch.tensor(1e-2, device=device) if cuda else 1e-2
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate, capturable=cuda)
        parts = [LinearLR(self.optimizer, 0.1, 1.0, 30), ConstantLR(self.optimizer, 1.0, 40), CosineAnnealingLR(self.optimizer, 80)]
        self.schedule = SequentialLR(self.optimizer, parts, milestones=[30, 70])
        self.rates = []

    def between(self, k):
        if k:
            self.schedule.step()
        group = self.optimizer.param_groups[0]
        self.rates.append(float(group["lr"]))
        if k == 100:
            group["name"] = "late"

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def build(device):
    loop = Loop(device)

    def refresh(args, kwargs, k):
        loop.between(k)
        x = torch.randn(16, 8)
        args[0].copy_(x)
        args[1].copy_(x.mean(1, keepdim=True).sin())

    x, y = torch.randn(16, 8, device=device), torch.randn(16, 1, device=device)
    return graphsafe.Step(loop.step, (x, y), refresh=refresh)
