"""Adam with a device-side warm-up of the learning rate, and an update that is undone if a gradient is not finite."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Trainer:
    def __init__(self, device, base=1e-2, warmup=50, total=500):
        self.model = nn.Sequential(nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 2)).to(device)
        self.params = list(self.model.parameters())
        self.lr = torch.tensor(0.0, device=device)
        self.opt = torch.optim.RAdam(self.params, lr=self.lr, capturable=True)
        self.t = torch.zeros((), device=device)
        self.skipped = torch.zeros((), dtype=torch.long, device=device)
        self.base, self.warmup, self.total = base, warmup, total

    def schedule(self):
        self.t.add_(1)
        up = self.t / self.warmup
        down = 0.5 * (1 + torch.cos(torch.pi * ((self.t - self.warmup) / (self.total - self.warmup)).clamp(0, 1)))
        self.lr.copy_(self.base * torch.where(self.t < self.warmup, up, down))

    def step(self, x, y):
        self.schedule()
        self.opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        ok = torch.stack([p.grad.isfinite().all() for p in self.params]).all()
        before = [p.detach().clone() for p in self.params]
        for p in self.params:
            p.grad.nan_to_num_(0.0, 0.0, 0.0)
        self.opt.step()
        with torch.no_grad():
            for p, old in zip(self.params, before):
                p.copy_(torch.where(ok, p, old))
        self.skipped.add_(~ok)
        return loss.detach(), self.skipped


def build(device, batch=8):
    t = Trainer(device)
    x, y = torch.randn(batch, 10, device=device), torch.randn(batch, 2, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 10))
        args[1].copy_(torch.randn(batch, 2))
        if k % 9 == 8:
            args[0][0].fill_(float("inf"))

    return graphsafe.Step(t.step, (x, y), refresh=refresh)
