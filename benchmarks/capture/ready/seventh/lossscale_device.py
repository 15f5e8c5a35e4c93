"""Mixed-precision training; overflow is handled on the device."""
import torch
from torch import nn

import graphsafe


class Trainer:
    def __init__(self, device):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 1)).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-2, capturable=True)
        self.scale = torch.full((), 1024.0, device=device)
        self.bad = torch.zeros((), device=device)

    def step(self, x, y):
        self.scale.mul_(torch.where(self.bad > 0, 0.5, 1.0))
        self.opt.zero_grad(set_to_none=False)
        loss = (self.model(x) - y).square().mean()
        (loss * self.scale).backward()
        bad = torch.zeros((), device=x.device)
        for p in self.model.parameters():
            p.grad.div_(self.scale)
            bad = torch.maximum(bad, (p.grad.abs().amax() > 1e3).float())
            p.grad.mul_(1 - bad).nan_to_num_(0.0, 0.0, 0.0)
        self.bad.copy_(bad)
        self.opt.step()
        return loss.detach(), self.scale.clone()


def build(device):
    trainer = Trainer(device)
    x, y = torch.randn(8, 16, device=device), torch.randn(8, 1, device=device)

    def refresh(args, kwargs, k):
        batch = torch.randn(8, 16)
        if k % 24 == 17:
            batch[0] *= 1e6
        args[0].copy_(batch)
        args[1].copy_(torch.randn(8, 1))

    return graphsafe.Step(trainer.step, (x, y), refresh=refresh)
