"""Forecast steps on small grids."""
import contextlib
import contextvars
import functools
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class SolarHeating:
    def __init__(self, device):
        self.longitude = torch.linspace(-torch.pi, torch.pi, 48, device=device)
        self.latitude = torch.linspace(-1.2, 1.2, 24, device=device).unsqueeze(1)
        self.surface = torch.zeros(24, 48, device=device)

    def __call__(self, albedo):
        hour = 2.0 * np.pi * (time.time() % 1800.0) / 1800.0
        angle = torch.cos(self.latitude) * torch.cos(self.longitude + hour)
        self.surface.mul_(0.9).add_((1.0 - albedo) * angle.clamp(min=0.0))
        return self.surface.clone()


def build_solar_heating(device):
    return SolarHeating(device), (torch.rand(24, 48, device=device) * 0.5,)


_levels = contextvars.ContextVar("levels", default=("calm",) * 45 + ("gusty",) * 15)


def build_advection(device):
    wind = torch.rand(16, 16, device=device) * 0.3
    field = torch.zeros(16, 16, device=device)

    def step(source):
        order = _levels.get()
        _levels.set(order[1:] + order[:1])
        reach = 1 if order[0] == "calm" else 3
        upstream = torch.roll(field, reach, dims=1)
        field.add_(wind * (upstream - field)).mul_(0.95).add_(source, alpha=0.1)
        return field.clone()

    return step, (torch.randn(16, 16, device=device),)


class StationAssimilation:
    """Nudges the grid towards the stations that reported in this cycle."""

    def __init__(self, device):
        self.grid = torch.zeros(400, device=device)

    def __call__(self, background, cells, reports):
        self.grid.lerp_(background, 0.5)
        departure = reports - self.grid[cells]
        return self.grid.mean() + 0.3 * departure


def build_station_assimilation(device):
    cells = torch.tensor([3, 40, 77, 120, 200, 311, 390])
    return StationAssimilation(device), (torch.randn(400, device=device), cells, torch.randn(7, device=device))


class PerturbedForecast:
    """Every forecast gets the same perturbation without disturbing the caller's random numbers."""

    def __init__(self, device):
        self.devices = [device] if device.type == "cuda" else []
        self.decay = torch.linspace(0.7, 1.0, 32, device=device)

    def __call__(self, state):
        with torch.random.fork_rng(devices=self.devices):
            torch.manual_seed(77)
            kick = torch.randn_like(state)
        return state * self.decay + 0.1 * kick, kick


def build_perturbed_forecast(device):
    return PerturbedForecast(device), (torch.randn(6, 32, device=device),)


class RainEnsemble:
    def __init__(self, members, device):
        self.source = torch.Generator(device)
        self.source.manual_seed(11)
        self.cells = torch.empty(members, 20, device=device)

    def __call__(self, intensity):
        self.cells.exponential_(1.5, generator=self.source)
        return (intensity * self.cells).quantile(0.9, dim=0)


def build_rain_ensemble(device):
    return RainEnsemble(12, device), (torch.rand(20, device=device),)


def _relaxation(start, stop, hold):
    value, model_time = start, 0
    while True:
        model_time += yield value
        if model_time > hold:
            value = max(stop, 0.98 * value)


class Nudging:
    def __init__(self, device):
        self.schedule = _relaxation(0.5, 0.05, 50)
        next(self.schedule)
        self.state = torch.zeros(10, 10, device=device)

    def __call__(self, analysis):
        strength = self.schedule.send(1)
        self.state.lerp_(analysis, strength)
        return torch.sin(self.state)


def build_nudging(device):
    return Nudging(device), (torch.randn(10, 10, device=device),)


class ShallowWater:
    def __init__(self, device):
        self.height = torch.zeros(20, 20, device=device)
        self.u = torch.zeros(20, 20, device=device)
        self.next_height, self.next_u = torch.empty_like(self.height), torch.empty_like(self.u)
        self.substeps = 4

    def __call__(self, forcing):
        for _ in range(self.substeps):
            slope = self.height.roll(-1, 1) - self.height.roll(1, 1)
            torch.add(self.u * 0.97, slope, alpha=-0.1, out=self.next_u)
            flow = self.next_u.roll(-1, 1) - self.next_u.roll(1, 1)
            torch.add(self.height * 0.97, flow, alpha=-0.1, out=self.next_height)
            self.next_height.add_(forcing, alpha=0.01)
            self.height, self.next_height = self.next_height, self.height
            self.u, self.next_u = self.next_u, self.u
        return self.height * 1.0, self.u * 1.0


def build_shallow_water(device):
    return ShallowWater(device), (torch.randn(20, 20, device=device),)


class OrographicLift:
    def __init__(self, device):
        ridge = np.exp(-np.linspace(-2, 2, 5) ** 2).astype(np.float32)
        kernel = torch.from_numpy(np.outer(ridge, ridge) / ridge.sum() ** 2).to(device)
        self.smooth = functools.partial(F.conv2d, weight=kernel[None, None], padding=2)
        self.masks = {n: (torch.arange(n, device=device) % 2 == 0).float() for n in (16, 32)}
        self.timings = []

    def __call__(self, moisture, wind):
        begin = time.perf_counter()
        lifted = self.smooth(moisture) * wind
        rain = torch.relu(lifted - 0.1) * self.masks[moisture.shape[-1]]
        self.timings.append(time.perf_counter() - begin)
        if len(self.timings) > 64:
            self.timings = self.timings[-8:]
        return moisture - rain, rain


def build_orographic_lift(device):
    return OrographicLift(device), (torch.rand(1, 1, 16, 16, device=device), torch.randn(1, 1, 16, 16, device=device))


class Saturate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(-bound, bound)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= ctx.bound, grad, 0.1 * grad), None


class BiasCorrector(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(12, device=device))
        self.scale = nn.Parameter(torch.ones(12, device=device))

    def forward(self, forecast, observed):
        corrected = Saturate.apply(forecast * self.scale + self.bias, 2.5)
        loss = (corrected - observed).square().mean() + 0.01 * self.scale.square().sum()
        grads = torch.autograd.grad(loss, (self.bias, self.scale))
        with torch.no_grad():
            torch._foreach_add_([self.bias, self.scale], grads, alpha=-0.05)
        return loss.detach(), corrected.detach()


def build_bias_corrector(device):
    return BiasCorrector(device), (torch.randn(30, 12, device=device), torch.randn(30, 12, device=device))


class NoisyMembers:
    def __init__(self, members, device):
        self.memory = torch.zeros(members, 25, device=device)
        self.quiet = contextlib.ExitStack()
        self.cycle = 0

    def __call__(self, mean, spread):
        with torch.no_grad(), self.quiet:
            noise = torch.randn_like(self.memory)
            self.memory.mul_(0.8).add_(noise * spread, alpha=0.6)
            self.cycle = (self.cycle + 1) % 24
            drawn = mean + self.memory
            return drawn.mean(0), drawn.var(0)


def build_noisy_members(device):
    return NoisyMembers(16, device), (torch.randn(25, device=device), torch.rand(25, device=device))
