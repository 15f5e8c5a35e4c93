"""Streaming audio: the loop writes each hop into a ring at a place that it counts, and hands the device the ring's start."""
import torch
from torch import nn

import graphsafe


class RingSpectrum(nn.Module):
    def __init__(self, size, bands, device):
        super().__init__()
        self.ring = torch.zeros(size, device=device)
        self.start = torch.zeros((), dtype=torch.int64, device=device)
        self.steps = torch.arange(size, device=device)
        self.window = torch.hann_window(size).to(device)
        self.head = nn.Linear(size // 2 + 1, bands).to(device)
        self.frames = 0

    def forward(self, gain):
        self.frames += 1
        ordered = self.ring[(self.steps + self.start) % len(self.ring)]
        power = torch.fft.rfft(ordered * self.window * gain).abs()
        return self.head(power.log1p())


def build(device, size=256, hop=48, bands=10):
    model = RingSpectrum(size, bands, device).eval().requires_grad_(False)
    gain = torch.ones(1, device=device)
    written = [0]

    def refresh(args, kwargs, k):
        at = written[0] % size
        chunk = torch.randn(hop).to(device)
        room = min(hop, size - at)
        model.ring[at : at + room].copy_(chunk[:room])
        if room < hop:
            model.ring[: hop - room].copy_(chunk[room:])
        written[0] += hop
        model.start.fill_(written[0] % size)
        args[0].fill_(0.5 + 0.1 * (k % 6))

    return graphsafe.Step(model, (gain,), refresh=refresh)
