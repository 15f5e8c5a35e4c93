"""Streaming voice activity gate with a history of frames."""
import torch
import torch.nn as nn


class History:
    def __init__(self, frames: int):
        self.frames = frames
        self.items = []

    def push(self, item):
        self.items.append(item)
        if len(self.items) > self.frames:
            self.items.pop(0)
        return torch.stack(self.items).mean(0)


class Gate(nn.Module):
    def __init__(self, bins: int):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(bins, 32), nn.ReLU(), nn.Linear(32, 1))
        self.history = History(frames=5)
        self.register_buffer("floor", torch.full((bins,), 1e-3))
        self.register_buffer("window", torch.hann_window(2 * bins - 2))
        self.threshold = 0.5

    def spectrum(self, chunk):
        return torch.fft.rfft(chunk * self.window).abs()

    def forward(self, chunk):
        power = self.spectrum(chunk)
        smooth = self.history.push(power)
        self.floor.copy_(torch.minimum(self.floor * 1.01, smooth.amin(0)))
        voiced = self.net((smooth - self.floor).log1p().nan_to_num()).sigmoid()
        if voiced.mean() < self.threshold:
            return torch.zeros_like(chunk)
        return chunk * voiced


def build(device):
    torch.manual_seed(41)
    gate = Gate(bins=33).to(device).eval().requires_grad_(False)
    return gate, (torch.randn(2, 64, device=device),)
