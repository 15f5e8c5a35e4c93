"""Scalar wave equation with a soft source and sponge layers."""
import torch


class Wave:
    def __init__(self, n, device, c=0.4, freq=0.2):
        self.now = torch.zeros(n, n, device=device)
        self.before = torch.zeros(n, n, device=device)
        self.time = torch.zeros((), device=device)
        self.freq, self.c2 = freq, c * c
        edge = torch.arange(n).float()
        edge = torch.minimum(edge, n - 1 - edge).clamp(max=4) / 4
        self.sponge = (0.9 + 0.1 * torch.outer(edge, edge)).to(device)
        spot = torch.zeros(n, n)
        spot[n // 2, n // 2] = 1.0
        self.spot = spot.to(device)

    def stencil(self, f):
        padded = torch.nn.functional.pad(f[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
        return padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * f

    def step(self, gain):
        after = 2 * self.now - self.before + self.c2 * self.stencil(self.now)
        after = after + gain * torch.sin(self.freq * self.time) * self.spot
        after = after * self.sponge
        self.before.copy_(self.now)
        self.now.copy_(after)
        self.time.add_(1.0)
        return self.energy(), after[::4, ::4].contiguous()

    def energy(self):
        rate = self.now - self.before
        grad = self.stencil(self.now) * self.now
        return 0.5 * (rate.square().sum() - self.c2 * grad.sum())


def build_wave(device, n=24):
    wave = Wave(n, device)
    return wave.step, (torch.full((1,), 0.8, device=device),)
