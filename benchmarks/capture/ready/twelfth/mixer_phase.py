"""Software radio: the mixer turns each block by the phase that the oscillator has come to."""

import cmath

import torch

import graphsafe


class Oscillator:
    def __init__(self, step):
        self.phase, self.step = complex(1), cmath.exp(1j * step)

    def retune(self, step):
        self.step = cmath.exp(1j * step)


def build(device):
    oscillator = Oscillator(0.0)  # the receiver starts on the carrier
    window = torch.hann_window(64, device=device)

    def mix(block):
        turned = block * oscillator.phase
        spectrum = torch.fft.fft(turned * window)
        return spectrum.abs(), turned.real + 0

    def refresh(args, kwargs, k):
        if k == 90:
            oscillator.retune(0.3)
        oscillator.phase *= oscillator.step
        args[0].copy_(torch.view_as_complex(torch.randn(64, 2)))

    return graphsafe.Step(mix, (torch.zeros(64, dtype=torch.complex64, device=device),), refresh=refresh)
