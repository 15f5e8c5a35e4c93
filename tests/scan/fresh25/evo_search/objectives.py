"""Test landscapes, evaluated for a whole population at once."""
import math

import torch


def rastrigin(x: torch.Tensor) -> torch.Tensor:
    return (x * x - 10 * torch.cos(2 * math.pi * x) + 10).sum(-1)


def rosenbrock(x: torch.Tensor) -> torch.Tensor:
    return (100 * (x[:, 1:] - x[:, :-1].square()).square() + (1 - x[:, :-1]).square()).sum(-1)


def ackley(x: torch.Tensor) -> torch.Tensor:
    spread = (x * x).mean(-1).sqrt()
    waves = torch.cos(2 * math.pi * x).mean(-1)
    return 20 + math.e - 20 * torch.exp(-0.2 * spread) - torch.exp(waves)


LANDSCAPES = {"rastrigin": rastrigin, "rosenbrock": rosenbrock, "ackley": ackley}
