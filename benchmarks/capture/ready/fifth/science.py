"""Small physics and numerics: particles, waves, solvers, chains."""

import collections
import os
import random
import threading
import weakref

import torch
import torch.nn as nn


# --- neighbour list -------------------------------------------------------------------------------------------------
def build_neighbour_list(device):
    nearest = torch.arange(24, device=device).view(12, 2).remainder(12)

    def forces(pos, age=[0], rebuild_every=25):
        gap = pos[:, None] - pos[None]
        if age[0] % rebuild_every == rebuild_every - 1:
            dist = gap.square().sum(-1) + 100.0 * torch.eye(len(pos), device=pos.device)
            nearest.copy_(dist.topk(2, largest=False).indices)
        age[0] += 1
        bond = pos[:, None] - pos[nearest]
        stretch = bond.norm(dim=-1, keepdim=True).clamp(min=1e-3)
        return -(bond * (1 - 0.5 / stretch)).sum(1)

    return forces, (torch.randn(12, 3, device=device),)


# --- oscillator with a growing step ---------------------------------------------------------------------------------
class CautiousStepper:
    """Symplectic Euler that starts with a small step and lets it grow to its limit."""

    def __init__(self, device, n=8):
        self.q = torch.zeros(n, device=device)
        self.p = torch.zeros(n, device=device)
        self.dt, self.dt_max = 0.004, 0.05

    def __call__(self, push):
        h = torch.full((), self.dt, device=push.device)
        self.dt = min(self.dt * 1.1, self.dt_max)
        self.p.add_(h * (push - self.q - 0.3 * self.p))
        self.q.add_(h * self.p)
        return self.q.clone(), self.p.clone()


def build_growing_dt(device):
    return CautiousStepper(device), (torch.rand(8, device=device) + 0.5,)


# --- wave equation, two buffers -------------------------------------------------------------------------------------
class WaveTank(nn.Module):
    def __init__(self, n=16):
        super().__init__()
        self.register_buffer("front", torch.zeros(n, n))
        self.register_buffer("back", torch.zeros(n, n))

    def laplace(self, u):
        return u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u

    def forward(self, source):
        torch.add(0.95 * self.front, self.laplace(self.front) * 0.1 + source, out=self.back)
        self.front, self.back = self.back, self.front
        return self.front.clone()


def build_wave_tank(device):
    return WaveTank().to(device), (torch.rand(16, 16, device=device) * 0.1,)


# --- preconditioner held weakly -------------------------------------------------------------------------------------
class Diagonal:
    def __init__(self, inverse):
        self.inverse = inverse


class WeakSolver:
    """Richardson iterations; the preconditioner lives as long as the recent history refers to it."""

    def __init__(self, device, n=10):
        self.eye = torch.eye(n, device=device)
        self.held = weakref.WeakValueDictionary()
        self.recent = collections.deque(maxlen=30)

    def __call__(self, a, b):
        m = self.eye * 4.0 + 0.3 * a
        scale = self.held.get("diagonal")
        if scale is None:
            scale = self.held["diagonal"] = Diagonal(1.0 / (m.diagonal() + a.abs().sum(1)))
            self.recent.append(scale)
        else:
            self.recent.append(None)
        x = torch.zeros_like(b)
        for _ in range(3):
            x = x + scale.inverse * (b - m @ x)
        return x


def build_weak_preconditioner(device):
    return WeakSolver(device), (torch.randn(10, 10, device=device), torch.randn(10, device=device))


# --- projecting a population back -----------------------------------------------------------------------------------
class Backcast(nn.Module):
    """Leslie-like transitions; a negative lag looks back in time."""

    def __init__(self, n=6, lag=-2):
        super().__init__()
        self.lag = lag
        self.register_buffer("base", 2.0 * torch.eye(n))

    def forward(self, rates, population):
        transition = self.base + 0.1 * torch.tanh(rates)
        return torch.linalg.matrix_power(transition, self.lag) @ population


def build_backcast(device):
    return Backcast().to(device), (torch.randn(6, 6, device=device), torch.rand(6, 3, device=device))


# --- sweeps from the environment ------------------------------------------------------------------------------------
class JacobiSolver:
    """Solver settings travel by environment, as the cluster's job scripts want it."""

    KEY = "ODD5_JACOBI_CALLS"

    def __init__(self, device, n=8):
        os.environ[self.KEY] = "0"
        self.eye = torch.eye(n, device=device)

    def sweeps(self):
        calls = int(os.environ.get(self.KEY, "0"))
        os.environ[self.KEY] = str(calls + 1)
        return 1 if calls < 35 else 3

    def __call__(self, coupling, rhs):
        off = coupling * (1 - self.eye) * 0.2
        x = rhs / 2.0
        for _ in range(self.sweeps()):
            x = (rhs - off @ x) / 2.0
        return x


def build_env_sweeps(device):
    return JacobiSolver(device), (torch.randn(8, 8, device=device), torch.randn(8, device=device))


# --- two half steps, two swaps --------------------------------------------------------------------------------------
class HeatPlate(nn.Module):
    """Ping-pong buffers; a call makes two half steps, so that names and memory meet again at its end."""

    def __init__(self, n=12):
        super().__init__()
        self.register_buffer("now", torch.zeros(n, n))
        self.register_buffer("then", torch.zeros(n, n))
        self.half_steps = 0

    def forward(self, source):
        for _ in range(2):
            spread = (self.now.roll(1, 0) + self.now.roll(-1, 0) + self.now.roll(1, 1) + self.now.roll(-1, 1)) / 4
            torch.add(spread * 0.9, source, alpha=0.1, out=self.then)
            self.now, self.then = self.then, self.now
            self.half_steps += 1
        return self.now * 1.0


def build_heat_plate(device):
    return HeatPlate().to(device), (torch.rand(12, 12, device=device),)


# --- particles on a mesh --------------------------------------------------------------------------------------------
class ParticleMesh:
    """Deposits charge with atomics, solves in Fourier space and kicks the particles."""

    def __init__(self, device, particles=64, cells=16):
        self.cells = cells
        self.velocity = torch.zeros(particles, device=device)
        self.density = torch.zeros(cells, device=device)
        k = torch.arange(cells // 2 + 1, device=device).float()
        self.green = 1.0 / (1.0 + k.square())
        self.lock = threading.Lock()
        self.kicks = 0

    def __call__(self, x, charge):
        cell = (x * self.cells).long().clamp(0, self.cells - 1)
        self.density.zero_().scatter_add_(0, cell, charge)
        potential = torch.fft.irfft(torch.fft.rfft(self.density) * self.green, n=self.cells)
        field = potential.roll(1) - potential.roll(-1)
        self.velocity.mul_(0.8).add_(charge * field[cell], alpha=0.1)
        with self.lock:
            self.kicks += 1
        return self.velocity.clone(), self.density.sum()


def build_particle_mesh(device):
    return ParticleMesh(device), (torch.rand(64, device=device), torch.rand(64, device=device) + 0.5)


# --- Langevin chain -------------------------------------------------------------------------------------------------
class LangevinChain:
    """Overdamped Langevin dynamics towards a moving target; the label of a run is drawn on the host and never used."""

    def __init__(self, device, n=32, step=0.1):
        self.x = torch.zeros(n, device=device)
        self.noise = torch.empty(n, device=device)
        self.step = step
        self.kick = (2 * step * 0.05) ** 0.5
        self.label = ""

    @torch.no_grad()
    def __call__(self, target):
        self.label = f"run-{random.getrandbits(24):06x}"
        self.noise.normal_()
        drift = target - self.x
        self.x.add_(drift, alpha=self.step).add_(self.noise, alpha=self.kick).clamp_(-5, 5)
        return self.x.clone(), self.x.var()


def build_langevin_chain(device):
    return LangevinChain(device), (torch.randn(32, device=device),)


# --- Cauchy steps with derivatives of derivatives -------------------------------------------------------------------
class CauchyPoint(nn.Module):
    """Logistic regression by Cauchy steps; a step that makes it worse is refused with where, not with if."""

    def __init__(self, width=5):
        super().__init__()
        self.register_buffer("theta", torch.zeros(width))
        self.register_buffer("refused", torch.zeros((), dtype=torch.long))

    def objective(self, theta, x, sign):
        return nn.functional.softplus(-sign * (x @ theta)).mean() + 0.05 * theta.square().sum()

    def forward(self, x, sign):
        theta = self.theta.detach().clone().requires_grad_()
        before = self.objective(theta, x, sign)
        (g,) = torch.autograd.grad(before, theta, create_graph=True)
        (hg,) = torch.autograd.grad((g * g.detach()).sum(), theta)
        g = g.detach()
        candidate = self.theta - g * (g.square().sum() / ((g * hg).sum() + 1e-6))
        better = self.objective(candidate, x, sign) < before.detach()
        self.refused.add_((~better).long())
        self.theta.copy_(torch.where(better, candidate, self.theta))
        return self.theta.clone(), before.detach()


def build_cauchy_point(device):
    sign = torch.randn(24, device=device).sign()
    return CauchyPoint().to(device), (torch.randn(24, 5, device=device), sign)
