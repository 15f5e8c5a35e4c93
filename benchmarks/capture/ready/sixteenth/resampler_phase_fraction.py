"""Streaming resampling from 44.1 to 16 kHz: the phase of the interpolation is a Fraction of the host."""
from fractions import Fraction

import torch

import graphsafe

RATIO = Fraction(441, 160)
OUT = 16


class Resampler:
    def __init__(self, device):
        self.grid = torch.arange(OUT, device=device) * float(RATIO)
        self.smooth = torch.zeros(OUT, device=device)
        self.phase = Fraction(0)

    def step(self, chunk):
        places = self.grid + float(self.phase)
        self.phase = (self.phase + OUT * RATIO) % 1
        left = places.floor()
        index = left.long()
        out = torch.lerp(chunk[index], chunk[index + 1], places - left)
        self.smooth.lerp_(out, 0.5)
        return out, self.smooth.clone()


def build(device):
    resampler = Resampler(device)
    signal = torch.sin(torch.arange(4000) * 0.37) + torch.sin(torch.arange(4000) * 0.11)

    def refresh(args, kwargs, k):
        start = int(OUT * RATIO * (k % 80))
        args[0].copy_(signal[start : start + 48])

    return graphsafe.Step(resampler.step, (signal[:48].to(device, copy=True),), refresh=refresh)
