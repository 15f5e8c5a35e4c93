"""A multistep solver for diffusion: the last prediction and the number of the step stand on the device."""

import torch
import torch.nn as nn


class Denoiser(nn.Module):
    def __init__(self, channels=3, width=24):
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.time = nn.Linear(1, width)
        self.last = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, sigma):
        h = self.first(x) + self.time(sigma.log().view(1, 1)).view(1, -1, 1, 1)
        return self.last(nn.functional.silu(h))


class Multistep:
    def __init__(self, net, steps, shape, device):
        self.net = net
        self.steps = steps
        self.sigmas = torch.logspace(1, -1.5, steps + 1, device=device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.old = torch.zeros(shape, device=device)
        self.share = torch.full((steps,), 0.5, device=device)
        self.share[:1].zero_()

    def threshold(self, x, rank=8):
        limit = x.abs().flatten(1).topk(rank, dim=1).values[:, -1:].clamp(min=1.0).view(-1, 1, 1, 1)
        return torch.minimum(torch.maximum(x, -limit), limit) / limit

    def predict(self, x, sigma):
        return self.threshold(x - sigma * self.net(x, sigma))

    def step(self, x):
        now = self.sigmas.index_select(0, self.index)
        following = self.sigmas.index_select(0, self.index + 1)
        denoised = self.predict(x, now)
        ratio = following / now
        share = self.share.index_select(0, self.index)
        mixed = (1 + share) * denoised - share * self.old
        self.old.copy_(denoised)
        self.index.add_(1).remainder_(self.steps)
        return ratio * x + (1 - ratio) * mixed


def build(device):
    torch.manual_seed(27)
    net = Denoiser().to(device).eval().requires_grad_(False)
    shape = (1, 3, 16, 16)
    solver = Multistep(net, 20, shape, device)
    return solver.step, (10.0 * torch.randn(shape, device=device),)
