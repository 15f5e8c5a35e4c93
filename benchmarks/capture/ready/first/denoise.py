"""Samplers for a small diffusion model."""
import numpy as np
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.inp = nn.Conv2d(channels, 16, 3, padding=1)
        self.out = nn.Conv2d(16, channels, 3, padding=1)

    def forward(self, x, sigma):
        c_in = 1.0 / (sigma**2 + 1.0) ** 0.5
        return self.out(torch.nn.functional.silu(self.inp(x * c_in)))


class KarrasEuler:
    def __init__(self, net):
        self.net = net

    @torch.no_grad()
    def advance(self, x, sigma, sigma_next):
        den = self.net(x, 0.5)
        slope = (x - den) / sigma
        return x + slope * (sigma_next - sigma)


class DdimNumpy:
    def __init__(self, net, t, t_prev):
        self.net = net
        self.t, self.t_prev = t, t_prev

    @torch.no_grad()
    def __call__(self, x, alphas_cumprod):
        a, a_prev = alphas_cumprod[self.t], alphas_cumprod[self.t_prev]
        eps = self.net(x, 1.0)
        x0 = (x - float(np.sqrt(1.0 - a)) * eps) / float(np.sqrt(a))
        return float(np.sqrt(a_prev)) * x0 + float(np.sqrt(1.0 - a_prev)) * eps


class Guided:
    def __init__(self, net):
        self.net = net

    @torch.inference_mode()
    def __call__(self, x, *, guidance):
        cond, uncond = self.net(torch.cat([x, x * 0.5]), 1.0).chunk(2)
        return uncond + guidance * (cond - uncond)


class TableEuler:
    """Keeps all noise levels on the device and picks a pair by a position tensor."""

    def __init__(self, net, device, n=20):
        self.net = net
        self.levels = torch.linspace(10.0, 0.01, n, device=device)

    @torch.no_grad()
    def __call__(self, x, at):
        here = self.levels.index_select(0, at)
        then = self.levels.index_select(0, (at + 1).clamp(max=self.levels.numel() - 1))
        den = self.net(x, here.view(-1, 1, 1, 1))
        return x + (x - den) / here * (then - here)


class Heun:
    def __init__(self, net):
        self.net = net

    @torch.no_grad()
    def __call__(self, x, sigma, sigma_next):
        d1 = (x - self.net(x, sigma)) / sigma
        mid = x + d1 * (sigma_next - sigma)
        d2 = (mid - self.net(mid, sigma_next)) / sigma_next
        return x + 0.5 * (d1 + d2) * (sigma_next - sigma)


class ThresholdedSampler:
    def __init__(self, net, quantile=0.95):
        self.net, self.quantile = net, quantile

    @torch.no_grad()
    def __call__(self, x, options):
        den = self.net(x, 1.0)
        if options["clip"]:
            limit = torch.quantile(den.flatten(1).abs(), self.quantile, dim=1).clamp_(min=1.0)
            limit = limit.view(-1, 1, 1, 1)
            den = den.clamp(-limit, limit) / limit
        return den + options["churn"] * x


def _latents(device, batch=2):
    return torch.randn(batch, 8, 8, 8, device=device)


def build_karras_euler(device):
    sampler = KarrasEuler(Denoiser().to(device))
    return sampler.advance, (_latents(device), torch.tensor(2.0), torch.tensor(1.4))


def build_ddim_numpy(device):
    sampler = DdimNumpy(Denoiser().to(device), 7, 6)
    return sampler, (_latents(device), np.linspace(0.99, 0.05, 20, dtype=np.float32))


def build_guided(device):
    return Guided(Denoiser().to(device)), (_latents(device),), {"guidance": torch.tensor(7.5)}


def build_table_euler(device):
    return TableEuler(Denoiser().to(device), device), (_latents(device), torch.tensor([3], device=device))


def build_heun(device):
    return Heun(Denoiser().to(device)), (_latents(device), 2.0, 1.5)


def build_thresholded(device):
    return ThresholdedSampler(Denoiser().to(device)), (_latents(device), {"clip": torch.tensor(True), "churn": 0.1})
