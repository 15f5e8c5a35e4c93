"""Streaming spectral shaper whose whole history is kept in buffers."""
from __future__ import annotations

import math

import torch
from torch import nn


class History(nn.Module):
    """The last `hops` hops, oldest first."""

    def __init__(self, hops: int, size: int):
        super().__init__()
        self.register_buffer("store", torch.zeros(hops, size))

    def __len__(self) -> int:
        return self.store.shape[0]

    def __lshift__(self, hop: torch.Tensor) -> "History":
        shifted = torch.roll(self.store, -1, dims=0)
        shifted[-1].copy_(hop)
        self.store.copy_(shifted)
        return self

    def frame(self) -> torch.Tensor:
        return self.store.flatten()


class GainRider(nn.Module):
    def __init__(self, bins: int, attack: float = 0.2):
        super().__init__()
        self.attack = attack
        self.register_buffer("level", torch.full((bins,), 1e-3))
        self.shape = nn.Linear(bins, bins)

    def forward(self, mag: torch.Tensor) -> torch.Tensor:
        self.level.lerp_(mag, self.attack)
        return torch.sigmoid(self.shape(torch.log1p(mag / self.level)))


class VibratoPhase(nn.Module):
    def __init__(self, rate_hz: float, hop: int, sample_rate: int):
        super().__init__()
        self.step = 2.0 * math.pi * rate_hz * hop / sample_rate
        self.register_buffer("angle", torch.zeros(()))

    def __iter__(self):
        return self

    def __next__(self) -> torch.Tensor:
        self.angle.add_(self.step).remainder_(2.0 * math.pi)
        return 0.05 * torch.sin(self.angle)


class SpectralShaper(nn.Module):
    def __init__(self, hop: int = 128, hops: int = 4):
        super().__init__()
        self.size = hop * hops
        self.hop = hop
        self.ring = History(hops, hop)
        self.rider = GainRider(self.size // 2 + 1)
        self.phase = VibratoPhase(3.0, hop, 16000)
        self.register_buffer("window", torch.hann_window(self.size).sqrt())
        self.register_buffer("overlap", torch.zeros(self.size))

    def forward(self, hop_in: torch.Tensor) -> torch.Tensor:
        frame = (self.ring << hop_in).frame()
        spec = torch.fft.rfft(frame * self.window)
        gain = self.rider(spec.abs()) * (1.0 + next(self.phase))
        shaped = torch.fft.irfft(spec * gain, n=self.size) * self.window
        total = self.overlap + shaped
        self.overlap[: -self.hop].copy_(total[self.hop :])
        self.overlap[-self.hop :].zero_()
        ready = total[: self.hop]
        peak = ready.abs().amax().clamp_min(1e-6)
        return ready * (0.98 / peak).clamp(max=1.0)


def build(device, hop: int = 128):
    torch.manual_seed(7)
    model = SpectralShaper(hop).to(device).eval().requires_grad_(False)
    return model, (torch.randn(hop, device=device) * 0.1,)
