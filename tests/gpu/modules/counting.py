"""Python values that change from step to step and that a graph freezes."""

import itertools
import math
from types import SimpleNamespace

import torch
from torch import nn


class AttributePosition(nn.Module):
    """A key/value cache whose position is an attribute."""

    def __init__(self, device):
        super().__init__()
        self.register_buffer("cache", torch.zeros(512, 8, device=device))
        self.position = 0

    def forward(self, key):
        self.cache[self.position : self.position + 1].copy_(key)
        self.position += 1  # guilty: attribute_position GS702
        return self.cache.sum(0)


def build_attribute_position(device):
    return AttributePosition(device), (torch.randn(1, 8, device=device),)


class HandmadeAdam:
    """An optimiser written by hand, whose step count is an entry of its group."""

    def __init__(self, parameter):
        self.group = {"step": 0, "lr": 0.1, "beta": 0.9}
        self.parameter = parameter
        self.average = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self, gradient):
        group = self.group
        group["step"] += 1  # guilty: group_entry GS702|GS802
        self.average.lerp_(gradient, 1 - group["beta"])
        correction = 1 - group["beta"] ** group["step"]
        self.parameter.add_(self.average, alpha=-group["lr"] / correction)
        return self.parameter.clone()


def build_group_entry(device):
    return HandmadeAdam(torch.ones(8, device=device)).step, (torch.randn(8, device=device),)


class PropertySchedule(nn.Module):
    """The temperature is a property over a count that nobody sees."""

    def __init__(self):
        super().__init__()
        self._calls = 0

    @property
    def temperature(self):
        self._calls += 1  # guilty: property_schedule GS702
        return 1.0 + 1.0 / self._calls

    def forward(self, logits):
        return (logits / self.temperature).softmax(-1)


def build_property_schedule(device):
    return PropertySchedule(), (torch.randn(4, 16, device=device),)


class CycledScales(nn.Module):
    """Alternates between coarse and fine, by an iterator."""

    def __init__(self):
        super().__init__()
        self.scales = itertools.cycle([1.0, 0.5, 0.25])

    def forward(self, image):
        scale = next(self.scales)  # guilty: cycled_scales GS702|GS504
        return image * scale + image.mean()


def build_cycled_scales(device):
    return CycledScales(), (torch.randn(3, 8, 8, device=device),)


class CosineNoise(nn.Module):
    """The noise level follows a schedule that is a lambda of the epoch."""

    def __init__(self, width):
        super().__init__()
        self.denoise = nn.Linear(width, width)
        self.epoch = 0
        self.schedule = lambda epoch: 0.5 * (1 + math.cos(math.pi * epoch / 50))

    @torch.no_grad()
    def forward(self, x):
        sigma = self.schedule(self.epoch)
        self.epoch += 1  # guilty: cosine_noise GS702
        return x - sigma * self.denoise(x)


def build_cosine_noise(device):
    return CosineNoise(8).to(device), (torch.randn(4, 8, device=device),)


class BornCounter(nn.Module):
    """The count does not exist before the first step."""

    def __init__(self, width):
        super().__init__()
        self.seen = None
        self.register_buffer("total", torch.zeros(width))

    def forward(self, x):
        self.seen = 1 if self.seen is None else self.seen + 1  # guilty: born_counter GS702
        self.total.add_(x.sum(0))
        return self.total / self.seen


def build_born_counter(device):
    return BornCounter(8).to(device), (torch.randn(4, 8, device=device),)


class ShrinkingCopy(nn.Module):
    """Each step copies one row less of what came in."""

    def __init__(self, rows, width, device):
        super().__init__()
        self.register_buffer("kept", torch.zeros(rows, width, device=device))
        self.left = rows

    def forward(self, x):
        self.kept[: self.left].copy_(x[: self.left])
        self.left = max(self.left - 1, 1)  # guilty: shrinking_copy GS702
        return self.kept * 2


def build_shrinking_copy(device):
    return ShrinkingCopy(24, 8, device), (torch.randn(24, 8, device=device),)


def build_closure_warmup(device):
    """A learning rate that is warmed up by a variable of the function around the step."""
    weight, steps = torch.ones(8, device=device), 0

    def step(gradient):
        nonlocal steps
        steps += 1  # guilty: closure_warmup GS702
        weight.sub_(gradient * (0.1 * min(1.0, steps / 100)))
        return weight.clone()

    return step, (torch.randn(8, device=device),)


_TOKENS_SEEN = 0


def annealed(x):
    global _TOKENS_SEEN
    _TOKENS_SEEN += x.shape[0]  # guilty: global_tokens GS702
    return x * math.exp(-_TOKENS_SEEN / 200)


def build_global_tokens(device):
    return annealed, (torch.randn(4, 8, device=device),)


class SigmaList(nn.Module):
    """A sampler that takes its noise levels from a list, one a step."""

    def __init__(self, width):
        super().__init__()
        self.denoise = nn.Linear(width, width)
        self.sigmas = [10.0 * 0.97**n for n in range(2000)]

    @torch.no_grad()
    def forward(self, latent):
        sigma = self.sigmas.pop(0)  # guilty: sigma_list GS702
        return latent + (self.denoise(latent) - latent) * (self.sigmas[0] - sigma) / sigma


def build_sigma_list(device):
    return SigmaList(8).to(device), (torch.randn(4, 8, device=device),)


class DeepCache(nn.Module):
    """Works the deep layers out every third step and keeps what they gave."""

    def __init__(self, width):
        super().__init__()
        self.shallow, self.deep = nn.Linear(width, width), nn.Linear(width, width)
        self.register_buffer("features", torch.zeros(4, width))
        self.calls = 0

    @torch.no_grad()
    def forward(self, x):
        hidden = torch.relu(self.shallow(x))
        if self.calls % 3 == 0:
            self.features.copy_(torch.tanh(self.deep(hidden)))
        self.calls += 1  # guilty: deep_cache GS702
        return hidden + self.features


def build_deep_cache(device):
    return DeepCache(8).to(device), (torch.randn(4, 8, device=device),)


class NamespacedStep(nn.Module):
    """The state of a scheduler in an object of its own."""

    def __init__(self, device):
        super().__init__()
        self.state = SimpleNamespace(index=0, history=torch.zeros(8, device=device))
        self.register_buffer("betas", torch.linspace(0.1, 0.9, 1000, device=device))

    def forward(self, x):
        state = self.state
        beta = self.betas[state.index]
        state.index = state.index + 1  # guilty: namespaced_step GS702
        state.history.mul_(beta).add_(x)
        return state.history.clone()


def build_namespaced_step(device):
    return NamespacedStep(device), (torch.randn(8, device=device),)
