"""Underdamped Langevin dynamics for a bead-spring chain."""
import math

import torch


def spring_force(x, k, rest):
    bond = x[1:] - x[:-1]
    dist = bond.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    pull = k * (dist - rest) * bond / dist
    out = torch.zeros_like(x)
    out[:-1] += pull
    out[1:] -= pull
    return out


def wall_force(x, half):
    return -10.0 * torch.relu(x.abs() - half) * x.sign()


class Reproducible:
    """Draws normal variates that depend only on the seed and the stage."""

    def __init__(self, seed):
        self.seed = seed

    def normal(self, like, stage):
        torch.manual_seed(self.seed + stage)
        return torch.randn_like(like)


def make_baoab(k, rest, half, dt, gamma, temperature, noise):
    decay = math.exp(-gamma * dt)
    spread = math.sqrt((1 - decay * decay) * temperature)
    total = lambda x: spring_force(x, k, rest) + wall_force(x, half)
    seen = {"x": None}

    def step(x, v):
        if seen["x"] is not None and torch.equal(seen["x"], x):
            raise RuntimeError("the chain does not move")
        v = v + 0.5 * dt * total(x)
        x = x + 0.5 * dt * v
        v = decay * v + spread * noise.normal(v, 0)
        x = x + 0.5 * dt * v
        v = v + 0.5 * dt * total(x)
        return x, v

    def watch(x):
        seen["x"] = x.clone()

    step.watch = watch
    return step


def build(device):
    torch.manual_seed(0)
    x = torch.cumsum(torch.randn(128, 3, device=device), 0)
    v = torch.zeros_like(x)
    step = make_baoab(50.0, 1.0, 20.0, 5e-3, 1.0, 0.5, Reproducible(7))
    step.watch(x + 1)
    return step, (x, v)
