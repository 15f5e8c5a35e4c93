"""What watches activations."""

import functools

import torch
from torch import nn


class MinMax(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.low, self.high = torch.zeros((), device=device), torch.ones((), device=device)

    def observe(self, x):
        self.low = torch.lerp(self.low, x.min(), 0.1)  # guilty: min_max GS703
        self.high = torch.lerp(self.high, x.max(), 0.1)  # guilty: min_max GS703

    def forward(self, x):
        self.observe(x.detach())
        return (x - self.low) / (self.high - self.low)


# quiet: min_max_inplace
class MinMaxInPlace(MinMax):
    def observe(self, x):
        self.low.lerp_(x.min(), 0.1)
        self.high.lerp_(x.max(), 0.1)


class FakeQuantize(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("enabled", torch.ones(1, dtype=torch.uint8))
        self.register_buffer("scale", torch.full((1,), 0.1))

    def forward(self, x):
        if self.enabled[0] == 1:  # guilty: enabled_flag GS102
            self.scale.copy_(x.abs().max() / 127)
        return (x / self.scale).round() * self.scale


# quiet: enabled_number
class FakeQuantizeSwitch(FakeQuantize):
    def __init__(self, enabled=True):
        super().__init__()
        self.on = [enabled]

    def forward(self, x):
        if self.on[0]:
            self.scale.copy_(x.abs().max() / 127)
        return (x / self.scale).round() * self.scale


class LazyScale(nn.Module):
    scale = None

    def calibrated(self, x):
        self.scale = self.scale if self.scale is not None else x.abs().amax() / 7  # guilty: lazy_scale GS701
        return self.scale

    def forward(self, x):
        return (x / self.calibrated(x)).round()


class Statistics(nn.Module):
    """Keeps the peaks of the last inputs."""

    def __init__(self, device):
        super().__init__()
        self.peaks = {"input": [torch.ones((), device=device)] * 3}

    def forward(self, x):
        peaks = self.peaks["input"]
        peaks[:] = [*peaks[1:], x.abs().amax()]  # guilty: peak_history GS703
        return x / max(peaks)  # guilty: peak_history GS102


def record_peak(module, args, output):
    module.peak = output.detach().abs().max().item()  # guilty: peak_hook GS101
    return output / module.peak


# quiet: peak_hook_tensor
def divide_by_peak(module, args, output):
    return output / output.detach().abs().amax()


def counted(every):
    """A hook that does something on every n-th call."""
    calls = 0

    def hook(module, args, output):
        nonlocal calls
        calls += 1  # guilty: counting_hook GS702
        return output.round() if calls % every == 0 else output  # guilty: counting_hook GS702

    return hook


class Offload:
    """Weights live on the host and visit the device for one call."""

    def __init__(self, module, device):
        self.home = {name: p.detach().cpu().clone() for name, p in module.named_parameters()}
        self.device = device
        module.register_forward_pre_hook(self)

    def __call__(self, module, args):
        for name, value in self.home.items():
            module.get_parameter(name).data = value.to(self.device)  # guilty: offloaded GS304


def hooked(module, hook):
    module.register_forward_hook(hook)
    return module


def guarded_forward(module, original, x):
    if x.abs().amax() > 2.0:  # guilty: replaced_forward GS102
        x = x.clamp(-2.0, 2.0)
    return original(x)


def guard(module):
    module.forward = functools.partial(guarded_forward, module, module.forward)
    return module


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + x.mean()
