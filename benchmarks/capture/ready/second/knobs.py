"""Steps steered by small host objects given as arguments."""
from collections import UserDict
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from graphsafe import Step
from torch import nn


class Mixer:
    def __init__(self, device):
        self.w = torch.randn(16, 16, device=device) / 4

    def __call__(self, x, knobs):
        y = torch.tanh(x @ self.w) * float(knobs.drive)
        return y + knobs.offset


class Exposure(NamedTuple):
    gamma: np.ndarray
    gain: torch.Tensor


def develop(raw, exposure):
    return raw.clamp(min=1e-3).pow(exposure.gamma.item()) * exposure.gain


class Crop:
    def __call__(self, img, box):
        top, left, height, width = box.tolist()
        return F.adaptive_avg_pool2d(img[:, :, top : top + height, left : left + width], 4)


class Splitter(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, sizes):
        parts = torch.split(x, [int(s) for s in sizes])
        return torch.cat([h(p).amax(0) for h, p in zip(self.heads, parts)])


class Equaliser:
    """Bands and their gains; the gains are views of one host table."""

    def __init__(self, device):
        self.bands = torch.randn(4, 32, device=device)

    def __call__(self, x, gains):
        total = torch.zeros_like(x)
        for band, gain in zip(self.bands, gains):
            total.add_(x * band, alpha=gain.item())
        return total


class PinnedScale:
    def __init__(self, device):
        self.scale = torch.tensor(0.7).pin_memory()
        self.w = torch.randn(8, 8, device=device)

    def __call__(self, x):
        return (x @ self.w) * self.scale


class PinnedScaleCopied(PinnedScale):
    def __init__(self, device):
        super().__init__(device)
        self.here = torch.zeros((), device=device)

    def __call__(self, x):
        self.here.copy_(self.scale, non_blocking=True)
        return (x @ self.w) * self.here


class Config(UserDict):
    pass


class Configured:
    def __init__(self, device):
        self.fc = nn.Linear(8, 8).to(device)

    def __call__(self, x, config):
        y = self.fc(x)
        if config["residual"].any():
            y = y + x
        return y * config["scale"]


class TensorConfigured(Configured):
    def __call__(self, x, config):
        return torch.where(config["residual"], self.fc(x) + x, self.fc(x)) * config["scale"]


class Thresholds:
    def __init__(self, device):
        self.bias = torch.randn(8, device=device)

    def __call__(self, x, limits):
        low, high = sorted(float(v) for v in limits)
        return (x + self.bias).clamp(low, high)


def build_namespace_knobs(device):
    knobs = SimpleNamespace(drive=torch.tensor(1.3), offset=torch.randn(16, device=device))
    return Mixer(device), (torch.randn(4, 16, device=device), knobs)


def build_develop(device):
    return develop, (torch.rand(4, 16, device=device), Exposure(np.array(2.2), torch.rand(16, device=device)))


def build_crop(device):
    return Crop(), (torch.randn(1, 3, 32, 32, device=device), torch.tensor([4, 6, 8, 10]))


def build_splitter(device):

    def refresh(args, kwargs, k):
        g = torch.Generator().manual_seed(k)
        args[0].copy_(torch.randn(12, 8, generator=g))
        args[1][...] = np.roll(np.array([3, 4, 5]), k)

    return Step(Splitter().to(device), (torch.randn(12, 8, device=device), np.array([3, 4, 5])), refresh=refresh)


def build_equaliser(device):
    return Equaliser(device), (torch.randn(2, 32, device=device), torch.tensor([0.1, 0.4, 0.3, 0.2]))


def build_pinned_scale(device):
    step = PinnedScale(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8, generator=torch.Generator().manual_seed(k)))
        step.scale.fill_(0.5 + 0.1 * (k % 7))

    return Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)


def build_pinned_scale_copied(device):
    step = PinnedScaleCopied(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8, generator=torch.Generator().manual_seed(k)))
        step.scale.fill_(0.5 + 0.1 * (k % 7))

    return Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)


def build_configured(device):
    config = Config(residual=torch.tensor([True]), scale=torch.rand(8, device=device))
    return Configured(device), (torch.randn(4, 8, device=device), config)


def build_tensor_configured(device):
    config = Config(residual=torch.tensor([True], device=device), scale=torch.rand(8, device=device))
    return TensorConfigured(device), (torch.randn(4, 8, device=device), config)


def build_thresholds(device):
    return Thresholds(device), (torch.randn(4, 8, device=device), np.array([-0.4, 0.9]))
