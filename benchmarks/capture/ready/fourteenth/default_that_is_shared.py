"""A default argument that is a dictionary is shared by all calls; a tuner of another module writes into it."""
import torch

import graphsafe


def equalise(x, bands, table={"gain": 1.0, "tilt": 0.0}):
    spectrum = torch.fft.rfft(x)
    ramp = torch.linspace(0, 1, spectrum.shape[-1], device=x.device)
    shaped = spectrum * bands * (table["gain"] + table["tilt"] * ramp)
    return torch.fft.irfft(shaped, n=x.shape[-1])


class Tuner:
    """Follows the level of what it hears and turns the tilt once the level has stayed low."""

    def __init__(self, function):
        self.table = function.__defaults__[0]
        self.level = 1.0

    def hear(self, samples):
        self.level = 0.95 * self.level + 0.05 * float(samples.abs().mean())
        if self.level < 0.3:
            self.table["tilt"] = 0.8
        if self.level > 0.9:
            self.table["tilt"] = 0.0


def build(device):
    tuner = Tuner(equalise)
    bands = torch.rand(33, device=device) + 0.5

    def refresh(args, kwargs, k):
        samples = torch.randn(2, 64) * (1.2 if k < 80 else 0.2)
        tuner.hear(samples)
        args[0].copy_(samples)

    return graphsafe.Step(equalise, (torch.randn(2, 64, device=device), bands), refresh=refresh)
