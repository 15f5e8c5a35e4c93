"""Training in half precision with a hand-written loss scale, as before GradScaler."""

import torch
import torch.nn as nn


class LossScale:
    def __init__(self, start=256.0, grow_after=4):
        self.value = start
        self.grow_after = grow_after
        self.good = 0

    def overflow(self, parameters):
        total = torch.zeros((), device=parameters[0].device)
        for p in parameters:
            total = total + p.grad.float().sum()
        return not torch.isfinite(total)

    def update(self, bad):
        if bad:
            self.value = max(self.value / 2, 1.0)
            self.good = 0
            return
        self.good += 1
        if self.good % self.grow_after == 0:
            self.value *= 2


class Trainer:
    def __init__(self, net, lr=0.05):
        self.net = net
        self.parameters = list(net.parameters())
        self.master = [p.detach().float().clone() for p in self.parameters]
        self.lr = lr
        self.scale = LossScale()

    def __call__(self, x, y):
        for p in self.parameters:
            p.grad.zero_()
        loss = (self.net(x.bfloat16()).float() - y).square().mean()
        (loss * self.scale.value).backward()
        bad = self.scale.overflow(self.parameters)
        if not bad:
            with torch.no_grad():
                for p, master in zip(self.parameters, self.master, strict=True):
                    master.sub_(p.grad.float(), alpha=self.lr / self.scale.value)
                    p.copy_(master)
        self.scale.update(bad)
        return loss.detach()


def build(device):
    torch.manual_seed(13)
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2)).to(device).bfloat16()
    trainer = Trainer(net)
    for p in trainer.parameters:
        p.grad = torch.zeros_like(p)
    return trainer, (torch.randn(24, 10, device=device), torch.randn(24, 2, device=device))
