"""A scripted limiter for speech: it counts frames, and opens up for a while in each minute of audio."""
import torch
from torch import nn

import graphsafe


class Limiter(nn.Module):
    frames: int

    def __init__(self, period: int, open_for: int):
        super().__init__()
        self.frames = 0
        self.period = period
        self.open_for = open_for

    def forward(self, x):
        self.frames += 1
        knee = 0.5
        if self.frames % self.period >= self.period - self.open_for:
            knee = 2.0
        squeezed = torch.tanh(x / knee) * knee
        return squeezed * torch.sigmoid(4.0 * x.abs()) + 0.01 * x


class Enhancer(nn.Module):
    def __init__(self, bands, device):
        super().__init__()
        self.analysis = nn.Linear(bands, 2 * bands).to(device)
        self.synthesis = nn.Linear(2 * bands, bands).to(device)
        self.limiter = torch.jit.script(Limiter(60, 12))

    def forward(self, frame):
        return self.synthesis(self.limiter(self.analysis(frame)))


def build(device, batch=2, bands=20):
    model = Enhancer(bands, device).eval().requires_grad_(False)
    frame = torch.randn(batch, bands).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, bands))

    return graphsafe.Step(model, (frame,), refresh=refresh)
