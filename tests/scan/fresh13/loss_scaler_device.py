"""Training in half precision with a loss scale that lives on the device and never asks the host."""

import torch
import torch.nn as nn


class LossScale:
    def __init__(self, device, start=256.0, grow_after=4):
        self.value = torch.full((), start, device=device)
        self.good = torch.zeros((), device=device)
        self.grow_after = grow_after

    def healthy(self, parameters):
        total = torch.zeros((), device=self.value.device)
        for p in parameters:
            total = total + p.grad.float().sum()
        return torch.isfinite(total)

    def update(self, fine):
        self.good.copy_(torch.where(fine, self.good + 1, 0.0))
        grown = torch.where(self.good >= self.grow_after, self.value * 2, self.value)
        self.value.copy_(torch.where(fine, grown, (self.value / 2).clamp(min=1.0)))
        self.good.copy_(torch.where(self.good >= self.grow_after, 0.0, self.good))


class Trainer:
    def __init__(self, net, lr=0.05):
        self.net = net
        self.parameters = list(net.parameters())
        self.master = [p.detach().float().clone() for p in self.parameters]
        self.lr = lr
        self.scale = LossScale(self.parameters[0].device)

    def __call__(self, x, y):
        for p in self.parameters:
            p.grad.zero_()
        loss = (self.net(x.bfloat16()).float() - y).square().mean()
        (loss * self.scale.value).backward()
        fine = self.scale.healthy(self.parameters)
        with torch.no_grad():
            for p, master in zip(self.parameters, self.master, strict=True):
                grad = torch.where(fine, p.grad.float() / self.scale.value, 0.0)
                master.sub_(grad, alpha=self.lr)
                p.copy_(master)
        self.scale.update(fine)
        return loss.detach()


def build(device):
    torch.manual_seed(13)
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2)).to(device).bfloat16()
    trainer = Trainer(net)
    for p in trainer.parameters:
        p.grad = torch.zeros_like(p)
    return trainer, (torch.randn(24, 10, device=device), torch.randn(24, 2, device=device))
