"""Integrators, lattices, graphs and state space models."""
import contextvars
import random
from dataclasses import dataclass, field

import numpy as np
import torch

import graphsafe


def pinned(t, device):
    return t.pin_memory() if device.type == "cuda" else t


def noise(shape, k):
    return torch.randn(shape, generator=torch.Generator().manual_seed(17 * k + 3))


class AdaptiveHeun:
    def __init__(self, device, tol=0.02):
        self.a = torch.randn(6, 6, device=device) * 0.4
        self.y = torch.zeros(4, 6, device=device)
        self.error = pinned(torch.full((1,), 0.02), device)
        self.dt, self.tol = 0.1, tol

    def field(self, y, force):
        return force - y + torch.tanh(y @ self.a)

    def __call__(self, force):
        ratio = self.tol / max(float(self.error.numpy()[0]), 1e-6)
        self.dt = min(max(self.dt * min(max(ratio**0.5, 0.5), 2.0), 0.01), 0.5)
        f0 = self.field(self.y, force)
        f1 = self.field(self.y + self.dt * f0, force)
        self.y.add_(f0 + f1, alpha=0.5 * self.dt)
        self.error.copy_((0.5 * self.dt * (f1 - f0)).abs().amax().view(1), non_blocking=True)
        return self.y.clone()


def build_adaptive_heun(device):
    torch.manual_seed(1)
    return AdaptiveHeun(device), (torch.randn(4, 6, device=device),)


class Lattice:
    def __init__(self, device, n=12):
        self.front = torch.zeros(n, n, device=device)
        self.back = torch.zeros(n, n, device=device)

    def sweep(self, source):
        u = self.front
        torch.add(0.2 * (u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1)), source, alpha=0.3, out=self.back)
        self.front, self.back = self.back, self.front


def build_lattice(device):
    torch.manual_seed(2)
    grid = Lattice(device)

    def step(source):
        grid.sweep(source)
        return grid.front.sum(dim=0), grid.front.diagonal()

    return step, (torch.randn(12, 12, device=device),)


class DiagonalSSM(torch.nn.Module):
    def __init__(self, width=16, inputs=4):
        super().__init__()
        self.register_buffer("decay", torch.linspace(0.5, 0.95, width))
        self.register_buffer("b", torch.randn(inputs, width) * 0.5)
        self.register_buffer("c", torch.randn(width, 3) * 0.5)
        self.register_buffer("state", torch.zeros(2, width), persistent=False)

    def forward(self, u):
        self.state = self.decay * self.state + u @ self.b
        return self.state @ self.c


def build_diagonal_ssm(device):
    torch.manual_seed(3)
    return DiagonalSSM().to(device), (torch.randn(2, 4, device=device),)


class NeighbourSum:
    def __init__(self):
        self.plans = {}

    def plan(self, edges, nodes, device):
        key = (edges.shape[1], nodes)
        if key not in self.plans:
            order = np.argsort(edges[1], kind="stable")
            degree = np.bincount(edges[1], minlength=nodes).clip(1).astype(np.float32)
            parts = (edges[0][order], edges[1][order], degree)
            self.plans[key] = tuple(torch.from_numpy(p.copy()).to(device) for p in parts)
        return self.plans[key]

    def __call__(self, x, edges):
        src, dst, degree = self.plan(edges, len(x), x.device)
        return torch.zeros_like(x).index_add_(0, dst, x[src]) / degree[:, None]


def build_neighbour_sum(device):
    torch.manual_seed(4)
    edges = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 0, 2], [1, 2, 3, 0, 5, 6, 7, 4, 3, 6]])
    return NeighbourSum(), (torch.randn(8, 5, device=device), edges)


boundary = contextvars.ContextVar("boundary", default="wrap")


def build_diffusion_1d(device):
    def step(u):
        if boundary.get() == "wrap":
            padded = torch.cat([u[:, -1:], u, u[:, :1]], dim=1)
        else:
            padded = torch.cat([u[:, :1], u, u[:, -1:]], dim=1)
        return u + 0.25 * (padded[:, 2:] - 2 * u + padded[:, :-2])

    def refresh(args, kwargs, k):
        args[0].copy_(noise((3, 10), k))
        boundary.set("mirror" if k % 7 > 3 else "wrap")

    return graphsafe.Step(step, (torch.randn(3, 10, device=device),), {}, refresh=refresh)


@dataclass
class Solver:
    dt: float = 0.05
    damping: float = 0.1


@dataclass
class World:
    gravity: torch.Tensor
    solver: Solver = field(default_factory=Solver)


def build_particles(device):
    torch.manual_seed(6)

    def step(pos, vel, world):
        h = world.solver.dt
        v = vel * (1 - world.solver.damping * h) + h * world.gravity
        return pos + h * v, v

    def refresh(args, kwargs, k):
        args[0].copy_(noise((5, 3), k))
        args[1].copy_(noise((5, 3), 1000 + k))
        args[2].gravity.copy_(torch.tensor([0.0, -9.81, 0.1 * (k % 3)]))
        args[2].solver.dt = 0.05 if k % 4 else 0.2

    world = World(torch.tensor([0.0, -9.81, 0.0], device=device))
    return graphsafe.Step(step, (torch.randn(5, 3, device=device), torch.randn(5, 3, device=device), world), {}, refresh=refresh)


def build_lattice_pair(device):
    torch.manual_seed(7)
    grid = Lattice(device)

    def step(source):
        for part in source:
            grid.sweep(part)
        return grid.front.sum(dim=0), grid.back.diagonal()

    return step, (torch.randn(2, 12, 12, device=device),)


def build_force_terms(device):
    torch.manual_seed(8)
    terms = [lambda r: -r, lambda r: 0.3 * r.roll(1, 0), lambda r: torch.sin(2 * r), lambda r: -0.1 * r.pow(3)]

    def step(r):
        random.shuffle(terms)
        total = torch.zeros_like(r)
        for term in terms:
            total += term(r)
        return total

    return step, (torch.randn(9, 3, device=device),)


def build_jacobi(device):
    torch.manual_seed(9)
    a = torch.randn(10, 10, device=device) * 0.05 + torch.eye(10, device=device)

    def step(b, units):
        s = float(np.prod(units))
        x = torch.zeros_like(b)
        scaled, diag = a * s, (a * s).diagonal()
        for _ in range(6):
            x = x + (b * s - scaled @ x) / diag
        return x

    return step, (torch.randn(10, device=device), np.array([2.0, 0.5, 3.0]))


class TwoBranches:
    def __init__(self):
        self.side = None

    def __call__(self, x):
        if x.device.type != "cuda":
            return torch.cumsum(x, 1) + torch.sin(x)
        if self.side is None:
            self.side = torch.cuda.Stream(x.device)
        main = torch.cuda.current_stream(x.device)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            right = torch.sin(x)
        left = torch.cumsum(x, 1)
        main.wait_stream(self.side)
        return left + right


def build_two_branches(device):
    torch.manual_seed(10)
    return TwoBranches(), (torch.randn(4, 16, device=device),)
