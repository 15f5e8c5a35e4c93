"""Streaming spectral shaper: one hop of audio in, one hop out."""
from __future__ import annotations

import functools
import math

import torch
from torch import nn


@functools.lru_cache(maxsize=None)
def analysis_window(size: int, device: str, dtype: torch.dtype) -> torch.Tensor:
    return torch.hann_window(size, periodic=True, device=device, dtype=dtype).sqrt()


class Ring:
    """Fixed-size history with list-like access; index 0 is the oldest hop."""

    def __init__(self, hops: int, size: int, device):
        self.store = torch.zeros(hops, size, device=device)
        self.head = 0

    def __len__(self) -> int:
        return self.store.shape[0]

    def __lshift__(self, hop: torch.Tensor) -> "Ring":
        self.store[self.head].copy_(hop)
        self.head = (self.head + 1) % len(self)
        return self

    def frame(self) -> torch.Tensor:
        return torch.cat([self.store[(self.head + i) % len(self)] for i in range(len(self))])


class GainRider(nn.Module):
    def __init__(self, bins: int, attack: float = 0.2):
        super().__init__()
        self.attack = attack
        self.register_buffer("level", torch.full((bins,), 1e-3))
        self.shape = nn.Linear(bins, bins)

    def forward(self, mag: torch.Tensor) -> torch.Tensor:
        self.level = torch.lerp(self.level, mag, self.attack)
        return torch.sigmoid(self.shape(torch.log1p(mag / self.level)))


class VibratoPhase:
    """A slow oscillator that advances by one hop each time it is asked."""

    def __init__(self, rate_hz: float, hop: int, sample_rate: int):
        self.step = 2.0 * math.pi * rate_hz * hop / sample_rate
        self.ticks = 0

    def __iter__(self):
        return self

    def __next__(self) -> float:
        self.ticks += 1
        return 0.05 * math.sin(self.step * self.ticks)


class SpectralShaper(nn.Module):
    def __init__(self, hop: int = 128, hops: int = 4, device="cpu"):
        super().__init__()
        self.size = hop * hops
        self.hop = hop
        self.ring = Ring(hops, hop, device)
        self.rider = GainRider(self.size // 2 + 1)
        self.phase = VibratoPhase(3.0, hop, 16000)
        self.register_buffer("overlap", torch.zeros(self.size))

    def forward(self, hop_in: torch.Tensor) -> torch.Tensor:
        window = analysis_window(self.size, str(hop_in.device), hop_in.dtype)
        frame = (self.ring << hop_in).frame()
        spec = torch.fft.rfft(frame * window)
        gain = self.rider(spec.abs()) * (1.0 + next(self.phase))
        shaped = torch.fft.irfft(spec * gain, n=self.size) * window
        self.overlap.add_(shaped)
        ready = self.overlap[: self.hop].clone()
        rest = self.overlap[self.hop :].clone()
        self.overlap[: -self.hop].copy_(rest)
        self.overlap[-self.hop :].zero_()
        peak = ready.abs().amax()
        if peak > 0.98:
            ready = ready * (0.98 / peak)
        return ready


def build(device, hop: int = 128):
    torch.manual_seed(7)
    model = SpectralShaper(hop, device=device).to(device).eval().requires_grad_(False)
    return model, (torch.randn(hop, device=device) * 0.1,)
