"""Running statistics by Welford with the count in a device tensor; reward scaling by the discounted return."""
import torch
import torch.nn as nn

import graphsafe


class RunningStat(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.full((), 1e-4, dtype=torch.float64))

    @torch.no_grad()
    def update(self, x):
        x = x.double()
        bm, bv, bc = x.mean(0), x.var(0, unbiased=False), x.shape[0]
        delta = bm - self.mean
        tot = self.count + bc
        self.var.mul_(self.count).add_(bv * bc).add_(delta**2 * self.count * bc / tot).div_(tot)
        self.mean.add_(delta * (bc / tot))
        self.count.copy_(tot)

    def normalize(self, x):
        return ((x - self.mean) / (self.var + 1e-8).sqrt()).to(x.dtype).clamp(-5, 5)


class Wrapper:
    def __init__(self, device, n=8, obs=5, gamma=0.99):
        self.obs_stat = RunningStat((obs,)).to(device)
        self.ret_stat = RunningStat(()).to(device)
        self.ret = torch.zeros(n, device=device)
        self.gamma = gamma

    def step(self, obs, reward, done):
        self.obs_stat.update(obs)
        self.ret.mul_(self.gamma).add_(reward)
        self.ret_stat.update(self.ret)
        scaled = (reward / (self.ret_stat.var + 1e-8).sqrt()).float()
        self.ret.mul_(1 - done)
        return self.obs_stat.normalize(obs), scaled


def build(device, n=8):
    w = Wrapper(device, n)
    args = (torch.randn(n, 5, device=device), torch.randn(n, device=device), torch.zeros(n, device=device))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 5) + 2)
        args[1].copy_(torch.randn(n))
        args[2].copy_((torch.rand(n) < 0.2).float())

    return graphsafe.Step(w.step, args, refresh=refresh)
