"""Wrong replays that are nearly right: the error is between 1e-6 and 1e-2 of the output."""

import random

import torch
import torch.nn.functional as F
from torch import nn


class AverageDecay(nn.Module):
    """An exponential average whose decay depends on how many updates there were."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("average", torch.ones(width))
        self.updates = 0

    def forward(self, weight):
        self.updates += 1  # guilty: average_decay GS702
        decay = min(0.9999, (1000 + self.updates) / (1010 + self.updates))
        self.average.mul_(decay).add_(weight, alpha=1 - decay)
        return self.average.clone()


def build_average_decay(device):
    return AverageDecay(16).to(device), (torch.randn(16, device=device) + 2,)


class Dither(nn.Module):
    """Adds a dither of a few millionths that grows from step to step."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, signal):
        self.calls += 1  # guilty: dither GS702
        return signal + 4e-6 * self.calls


def build_dither(device):
    return Dither(), (torch.rand(64, device=device) + 0.5,)


class Teacher(nn.Module):
    """A teacher that follows a student slowly, in a tensor made anew in each step."""

    def __init__(self, width, device):
        super().__init__()
        self.teacher = torch.ones(width, device=device)

    def forward(self, student):
        self.teacher = 0.9999 * self.teacher + 0.0001 * student  # guilty: teacher GS703
        return self.teacher * 2


def build_teacher(device):
    return Teacher(16, device), (torch.randn(16, device=device),)


class ResidualOffset(nn.Module):
    """A small correction, worked out from the first batch and never again."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.offset = None

    @torch.no_grad()
    def forward(self, x):
        if self.offset is None:
            self.offset = 1e-4 * x.mean(0)  # guilty: residual_offset GS701
        return self.layer(x) - self.offset


def build_residual_offset(device):
    return ResidualOffset(16).to(device), (torch.randn(8, 16, device=device) + 1,)


class Jitter(nn.Module):
    """Multiplies by a host's random number that is nearly one."""

    def forward(self, x):
        return x * (1.0 + 1e-5 * random.random())  # guilty: jitter GS504


def build_jitter(device):
    return Jitter(), (torch.randn(4, 32, device=device),)


class ApproximateGelu(nn.Module):
    """Takes the cheaper formula while it is captured."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    @torch.no_grad()
    def forward(self, x):
        hidden = self.up(x)
        if torch.cuda.is_current_stream_capturing():  # guilty: approximate_gelu GS608
            return self.down(F.gelu(hidden, approximate="tanh"))
        return self.down(F.gelu(hidden))


def build_approximate_gelu(device):
    return ApproximateGelu(16).to(device), (torch.randn(8, 16, device=device) * 2,)
