"""Short-time spectra. The frames are an overlapping view of the ring of samples; the hop follows the speaker's rate."""
import torch
from torch import nn

import graphsafe


class Spectrum(nn.Module):
    def __init__(self, length, bands):
        super().__init__()
        self.register_buffer("window", torch.hann_window(length))
        self.register_buffer("bank", torch.rand(length, bands))

    def forward(self, frames):
        windowed = frames * self.window  # <-A
        return torch.log1p((windowed @ self.bank).square())


def build(device, frames=10, length=16, bands=6, hop=4):
    model = Spectrum(length, bands).to(device).eval().requires_grad_(False)
    samples = torch.randn(frames * length).to(device)
    view = samples.as_strided((frames, length), (hop, 1))

    def refresh(args, kwargs, k):
        samples.copy_(torch.randn(samples.shape))
        if k % 7 == 6:
            args[0].as_strided_((frames, length), (hop + 4, 1))  # <-B
        elif k % 7 == 0:
            args[0].as_strided_((frames, length), (hop, 1))

    return graphsafe.Step(model, (view,), refresh=refresh)
