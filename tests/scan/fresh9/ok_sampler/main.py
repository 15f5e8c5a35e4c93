"""A sampler with registered schedules; every number is fixed or on the device."""

import torch
from torch import nn

SCHEDULES = {}


def schedule(name):
    def register(fn):
        SCHEDULES[name] = fn
        return fn

    return register


@schedule("geometric")
def geometric(count, low, high):
    ratio = (low / high) ** (1 / (count - 1))
    return [high * ratio**i for i in range(count)]


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width + 1, 32), nn.SiLU(), nn.Linear(32, width))

    def forward(self, x, sigma):
        return self.inner(torch.cat([x, sigma.expand(x.shape[0], 1)], dim=1))


class StochasticSampler:
    def __init__(self, net, name, count, churn, device):
        self.net = net
        self.churn = churn
        self.sigmas = SCHEDULES[name](count, 0.05, 4.0)
        self.levels = torch.tensor(self.sigmas, device=device).view(-1, 1, 1)

    def _stir(self, x, sigma):
        keep = torch.rand((), device=x.device) < self.churn
        return torch.where(keep, x + 0.05 * sigma * torch.randn_like(x), x)

    @torch.inference_mode()
    def __call__(self, x):
        for i, sigma in enumerate(self.sigmas[:-1]):
            x = self._stir(x, sigma)
            slope = (x - self.net(x, self.levels[i])) / sigma
            x = x + slope * (self.sigmas[i + 1] - sigma)
        return x


def build(device):
    net = Denoiser(8).to(device)
    sampler = StochasticSampler(net, "geometric", 4, 0.5, device)
    return sampler, (torch.randn(6, 8, device=device),)
