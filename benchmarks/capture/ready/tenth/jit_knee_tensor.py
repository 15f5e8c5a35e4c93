"""A scripted limiter for speech: it counts frames on the device, and opens up for a while in each minute of audio."""
import torch
from torch import nn

import graphsafe


class Limiter(nn.Module):
    def __init__(self, period: int, open_for: int):
        super().__init__()
        self.register_buffer("frames", torch.zeros(1))
        self.period = period
        self.open_for = open_for
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # for the log
        self.frames.add_(1).remainder_(self.period)
        opened = (self.frames >= self.period - self.open_for).to(x.dtype)
        knee = 0.5 + 1.5 * opened
        squeezed = torch.tanh(x / knee) * knee
        return squeezed * torch.sigmoid(4.0 * x.abs()) + 0.01 * x


class Enhancer(nn.Module):
    def __init__(self, bands, device):
        super().__init__()
        self.analysis = nn.Linear(bands, 2 * bands)
        self.synthesis = nn.Linear(2 * bands, bands)
        self.limiter = torch.jit.script(Limiter(60, 12))
        self.to(device)

    def forward(self, frame):
        return self.synthesis(self.limiter(self.analysis(frame)))


def build(device, batch=2, bands=20):
    model = Enhancer(bands, device).eval().requires_grad_(False)
    frame = torch.randn(batch, bands).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, bands))

    return graphsafe.Step(model, (frame,), refresh=refresh)
