"""A single-sideband demodulator: the operator switches between upper and lower sideband while it runs."""
import torch
from torch import nn

import graphsafe


class Demodulator(nn.Module):
    def __init__(self, samples, device):
        super().__init__()
        phase = torch.arange(samples) * 0.21
        self.carrier = torch.polar(torch.ones(samples), phase).to(device)
        self.quadrature = self.carrier.imag
        self.smooth = nn.Conv1d(1, 4, 7, padding=3).to(device)

    def select(self, upper):
        # the lower sideband turns the other way round
        self.quadrature = self.carrier.imag if upper else self.carrier.conj().imag

    def forward(self, in_phase, shifted):
        mixed = in_phase * self.carrier.real - shifted * self.quadrature
        return self.smooth(mixed[:, None]).amax(dim=-1)


def build(device, batch=3, samples=128):
    radio = Demodulator(samples, device).eval().requires_grad_(False)
    in_phase = torch.randn(batch, samples).to(device)
    shifted = torch.randn(batch, samples).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, samples))
        args[1].copy_(torch.randn(batch, samples))
        if k % 9 == 8:
            radio.select(k // 9 % 2 == 1)

    return graphsafe.Step(radio, (in_phase, shifted), refresh=refresh)
