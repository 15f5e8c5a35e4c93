"""Metropolis-adjusted Langevin chains on a mixture of Gaussians, in closures."""
import math

import torch


def mixture(device, modes=5, dim=8, spread=3.0):
    centres = torch.randn(modes, dim, device=device) * spread
    weights = torch.ones(modes, device=device).log_softmax(0)

    def energy(x):
        gap = (x[:, None] - centres).square().sum(-1)
        return -torch.logsumexp(weights - 0.5 * gap, dim=-1)

    def slope(x):
        gap = x[:, None] - centres
        share = torch.softmax(weights - 0.5 * gap.square().sum(-1), dim=-1)
        return (share[..., None] * gap).sum(1)

    return energy, slope


def make_kernel(energy, slope, eta, source):
    def propose(x):
        noise = torch.randn(x.shape, device=x.device, generator=source)
        return x - eta * slope(x) + math.sqrt(2 * eta) * noise

    def log_q(to, origin):
        return -(to - origin + eta * slope(origin)).square().sum(-1) / (4 * eta)

    def kernel(x, beta):
        y = propose(x)
        ratio = beta * (energy(x) - energy(y)) + log_q(x, y) - log_q(y, x)
        u = torch.rand_like(ratio)
        ok = u.log() < ratio
        return torch.where(ok[:, None], y, x), ok

    return kernel


def annealed(kernel, heat):
    """Wraps a kernel with a schedule and with the state of all chains."""
    sweep = 0

    def advance(state):
        nonlocal sweep
        beta = min(1.0, heat + 0.01 * sweep)
        sweep += 1
        moved, ok = kernel(state["x"], beta)
        state["x"].copy_(moved)
        state["accepted"].add_(ok.float())
        return state["x"]

    return advance


def guarded(advance, lowest):
    """Pulls chains back to the origin when they run away."""

    def safe(state):
        x = advance(state)
        if x.abs().max() > lowest:
            x.clamp_(-lowest, lowest)
        return x

    return safe


def summary(state, sweeps):
    """For the notebook: acceptance rate and spread."""
    rate = (state["accepted"] / sweeps).mean().item()
    return {"rate": rate, "spread": state["x"].std(0).tolist()}


def build(device):
    torch.manual_seed(11)
    energy, slope = mixture(device)
    source = torch.Generator(device=device)
    source.manual_seed(5)
    kernel = make_kernel(energy, slope, eta=0.05, source=source)
    state = {
        "x": torch.randn(256, 8, device=device),
        "accepted": torch.zeros(256, device=device),
    }
    return guarded(annealed(kernel, heat=0.1), lowest=20.0), (state,)
