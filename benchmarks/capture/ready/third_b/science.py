"""Small solvers, fields and statistics."""
import math
from contextlib import nullcontext

import torch


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


def build_speed_histogram(device):
    temperature = torch.ones((), device=device)

    def step(velocity):
        speed = velocity.norm(dim=-1)
        counts = torch.histogram(speed, bins=12, range=(0.0, 4.0)).hist
        temperature.lerp_(speed.square().mean() / 3, 0.1)
        return counts / speed.numel(), temperature.clone()

    return step, (torch.randn(64, 3, device=device),)


def build_energy_histogram(device):
    temperature = torch.ones((), device=device)

    def step(velocity):
        energy = velocity.square().sum(dim=-1) / 2
        counts = torch.histc(energy, bins=12, min=0.0, max=6.0)
        temperature.lerp_(energy.mean() / 1.5, 0.1)
        return counts / energy.numel(), temperature.clone()

    return step, (torch.randn(64, 3, device=device),)


class FactorRisk:
    def __init__(self, device, assets=6):
        self.kept = torch.zeros(assets, assets, device=device)

    def __call__(self, returns, weights):
        self.kept.lerp_(torch.corrcoef(returns), 0.2)
        return weights @ self.kept @ weights


def build_factor_risk(device):
    return FactorRisk(device), (torch.randn(6, 40, device=device), torch.rand(6, device=device))


class FluxLane:
    """Advance a field and diagnose its flux."""

    def __init__(self, device, n=256):
        self.u = torch.randn(n, n, device=device)
        self.kernel = torch.randn(n, n, device=device) / math.sqrt(n)
        self.flux = torch.zeros(n, device=device)
        self.side = lane(device)

    def __call__(self, force):
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        with on(self.side):
            k = self.kernel
            for _ in range(8):
                k = torch.tanh(k @ self.kernel)
            self.flux.copy_((k @ self.u).mean(dim=-1))
        self.u.mul_(0.5).add_(force)
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)
        return self.flux.clone(), self.u.mean(dim=0)


def build_flux_lane(device):
    return FluxLane(device), (torch.randn(256, 256, device=device),)


class Relaxation:
    def __init__(self, device, n=12):
        a = torch.randn(n, n) / 5
        self.a = (a @ a.t() + torch.eye(n)).to(device)
        self.x = torch.zeros(n, device=device)
        self.residual = torch.ones(1, pin_memory=device.type == "cuda")

    def __call__(self, b):
        sweeps = min(8, 1 + int(3 * self.residual.item()))
        self.x.zero_()
        for _ in range(sweeps):
            self.x.add_(b - self.a @ self.x, alpha=0.4)
        left = (b - self.a @ self.x).abs()[:1]
        self.residual.copy_(left, non_blocking=True)
        return self.x.clone()


def build_relaxation(device):
    return Relaxation(device), (torch.randn(12, device=device) * 2,)


class Sweeper:
    def __init__(self, device, sweeps, n=32):
        self.now, self.new = torch.zeros(n, device=device), torch.zeros(n, device=device)
        self.sweeps = sweeps

    def __call__(self, rhs):
        for _ in range(self.sweeps):
            torch.mul(self.now.roll(1), 0.97, out=self.new)
            self.new.add_(rhs, alpha=0.05)
            self.now, self.new = self.new, self.now
        return self.now.clone()


def build_five_sweeps(device):
    return Sweeper(device, 5), (torch.randn(32, device=device),)


def build_four_sweeps(device):
    return Sweeper(device, 4), (torch.randn(32, device=device),)


class ProbeLog:
    """Running mean and spread of probe readings."""

    def __init__(self, device, probes=6):
        self.rows = torch.zeros(1, probes, device=device)
        self.field = torch.zeros(probes, device=device)

    def __call__(self, forcing):
        self.field.mul_(0.8).add_(forcing)
        n = self.rows.shape[0]
        self.rows.resize_(n + 1, self.rows.shape[1])
        self.rows[n].copy_(self.field)
        return self.rows.mean(dim=0), self.rows.std(dim=0)


def build_probe_log(device):
    return ProbeLog(device), (torch.randn(6, device=device),)
