"""Feedback through small pinned host buffers, one step late."""
import torch
from torch import nn


class LossScale(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.fc = nn.Linear(16, 16)
        self.overflow = torch.zeros(1, dtype=torch.bool, pin_memory=True)

    def forward(self, x):
        y = self.fc(x)
        if self.overflow[0]:
            y = y * 0.5
        self.overflow.copy_((y.abs().amax() > 2.2).view(1), non_blocking=True)
        return y


class AutoGain:
    def __init__(self, device):
        self.level = torch.ones((), pin_memory=True)
        self.table = torch.randn(16, device=device)

    def __call__(self, x):
        y = x * self.table / float(self.level)
        self.level.copy_(y.detach().norm().clamp(min=0.1), non_blocking=True)
        return y


class StopWatcher:
    def __init__(self, device):
        pinned = torch.zeros(4, pin_memory=True)
        self.pinned, self.view = pinned, pinned.numpy()

    def __call__(self, logits):
        boost = 10.0 if self.view[0] > 0.3 else 0.0
        probs = torch.softmax(logits + boost * (logits > 0), -1)
        self.pinned.copy_(probs.amax(-1)[:4], non_blocking=True)
        return probs


class Widths:
    def __init__(self, device):
        self.counts = torch.full((2,), 3, dtype=torch.int64).pin_memory()

    def __call__(self, x):
        lo, hi = self.counts.tolist()
        y = x[:, :lo].sum(-1) + x[:, -hi:].sum(-1)
        self.counts.copy_((x > 0).sum(-1)[:2].clamp(1, 8), non_blocking=True)
        return y


class Telemetry:
    """Publishes a norm to the host; the dashboard reads it between steps."""

    def __init__(self, device):
        self.gauge = torch.zeros((), pin_memory=True)

    def __call__(self, x):
        y = torch.tanh(x)
        self.gauge.copy_(y.norm(), non_blocking=True)
        return y


def build_loss_scale(device):
    return LossScale(device).to(device), (torch.randn(4, 16, device=device) * 3,)


def build_auto_gain(device):
    return AutoGain(device), (torch.randn(4, 16, device=device),)


def build_stop_watcher(device):
    return StopWatcher(device), (torch.randn(4, 16, device=device),)


def build_widths(device):
    return Widths(device), (torch.randn(4, 16, device=device),)


def build_telemetry(device):
    return Telemetry(device), (torch.randn(4, 16, device=device),)
