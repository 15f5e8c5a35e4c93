"""An audio limiter: the desk's gain is a numpy cell; who writes it also sends it to the device's own gain."""
import numpy as np
import torch
from torch import nn

import graphsafe


class Limiter(nn.Module):
    def __init__(self, channels, cell):
        super().__init__()
        self.mix = nn.Linear(channels, channels)
        self.host_gain = torch.from_numpy(cell)
        self.register_buffer("gain", torch.ones(()))

    def forward(self, x):
        driven = self.mix(x) * self.gain
        return torch.tanh(driven) / self.gain


def build(device, batch=8, channels=8):
    cell = np.array(1.0, dtype=np.float32)
    model = Limiter(channels, cell).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, channels).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, channels))
        if k % 6 == 5:
            cell[...] = 2.5 if cell < 2 else 1.0
            model.gain.copy_(model.host_gain)

    return graphsafe.Step(model, (x,), refresh=refresh)
