import math
import torch
from torch import nn


class HandAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.95)):
        self.params = list(params)
        self.lr, self.betas = lr, betas
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = 0

    @torch.no_grad()
    def step(self, grads):
        self.t += 1
        b1, b2 = self.betas
        c1, c2 = 1 - b1 ** self.t, 1 - b2 ** self.t
        norm = torch.sqrt(sum(g.square().sum() for g in grads))
        if norm > 1.0:
            grads = [g / norm for g in grads]
        for i, (p, g) in enumerate(zip(self.params, grads)):
            self.m[i] = b1 * self.m[i] + (1 - b1) * g
            self.v[i].mul_(b2).addcmul_(g, g, value=1 - b2)
            p.sub_(self.lr / c1 * self.m[i] / ((self.v[i] / c2).sqrt() + 1e-8))


def build(device):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 2)).to(device)
    opt = HandAdam(net.parameters())

    def step(x, y):
        loss = nn.functional.mse_loss(net(x), y)
        opt.step(torch.autograd.grad(loss, opt.params))
        return loss.detach()

    return step, (torch.randn(4, 6, device=device), torch.randn(4, 2, device=device))
