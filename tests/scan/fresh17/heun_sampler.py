"""Heun steps of a Karras sampler on a toy U-Net."""
import torch
from torch import nn


def karras(n, smin=0.05, smax=10.0, rho=7.0):
    ramp = torch.linspace(0, 1, n)
    sig = (smax ** (1 / rho) + ramp * (smin ** (1 / rho) - smax ** (1 / rho))) ** rho
    return torch.cat([sig, sig.new_zeros(1)])


class Unet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.down = nn.Conv2d(c + 1, 16, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(16, c, 4, stride=2, padding=1)

    def forward(self, x, sigma):
        level = torch.log(sigma.clamp_min(1e-3)).expand(x.shape[0], 1, x.shape[2], x.shape[3])
        return self.up(torch.nn.functional.silu(self.down(torch.cat([x, level], 1))))


class Heun(nn.Module):
    def __init__(self, steps=10, c=4):
        super().__init__()
        self.net = Unet(c)
        self.register_buffer("sigmas", karras(steps))
        self.register_buffer("index", torch.zeros(1, dtype=torch.long))
        self.n = steps

    def forward(self, x):
        now = self.sigmas.index_select(0, self.index)
        nxt = self.sigmas.index_select(0, self.index + 1)
        noisy = x + 0.01 * now * torch.randn_like(x)
        d = (noisy - self.net(noisy, now)) / now
        guess = noisy + d * (nxt - now)
        d2 = (guess - self.net(guess, nxt)) / nxt.clamp_min(1e-3)
        mixed = torch.where(nxt > 0, 0.5 * (d + d2), d)
        self.index.add_(1).remainder_(self.n)
        return noisy + mixed * (nxt - now)


@torch.no_grad()
def build(device):
    torch.manual_seed(1)
    sampler = Heun().to(device).eval().requires_grad_(False)
    return sampler, (torch.randn(1, 4, 8, 8, device=device),)
