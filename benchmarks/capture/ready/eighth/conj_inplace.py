"""Uplink/downlink beamformer: the conjugate taps are written into the same memory."""
import torch
from torch import nn

import graphsafe


class Beamformer(nn.Module):
    def __init__(self, antennas, beams):
        super().__init__()
        self.register_buffer("taps", torch.randn(antennas, beams, dtype=torch.complex64) / antennas**0.5)
        self.register_buffer("noise", torch.full((beams,), 0.05))

    def switch_direction(self):
        self.taps.copy_(self.taps.conj().resolve_conj())

    def forward(self, samples):
        beams = samples @ self.taps
        power = beams.real.square() + beams.imag.square()
        return power / (power.mean(0) + self.noise), beams


def build(device, batch=8, antennas=16, beams=4):
    model = Beamformer(antennas, beams).to(device).eval().requires_grad_(False)
    samples = torch.randn(batch, antennas, dtype=torch.complex64).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, antennas, dtype=torch.complex64))
        if k % 11 == 10:
            model.switch_direction()

    return graphsafe.Step(model, (samples,), refresh=refresh)
