"""A weighted-recombination strategy with cumulative step-size adaptation, all state on the device."""
import math

import torch


class SearchState:
    """One mean, one step size and one path, shared by the graphs of all population sizes."""

    def __init__(self, dim: int, device: torch.device):
        self.dim = dim
        self.mean = torch.zeros(dim, device=device)
        self.path = torch.zeros(dim, device=device)
        self.sigma = torch.ones((), device=device)
        self.best = torch.zeros(dim, device=device)
        self.best_value = torch.full((), math.inf, device=device)
        self.generator = torch.Generator(device=device)

    def restart(self, seed: int, spread: float) -> None:
        self.generator.manual_seed(seed)
        self.mean.uniform_(-spread, spread, generator=self.generator)
        self.path.zero_()
        self.sigma.fill_(spread / 3)
        self.best_value.fill_(math.inf)


class Generation:
    """The work of one generation for a fixed population size and landscape."""

    def __init__(self, state: SearchState, population: int, landscape):
        self.state, self.population, self.landscape = state, population, landscape
        self.parents = population // 2
        ranks = [math.log(self.parents + 0.5) - math.log(i + 1) for i in range(self.parents)]
        self.weights = torch.tensor([r / sum(ranks) for r in ranks], device=state.mean.device)
        self.mass = sum(ranks) ** 2 / sum(r * r for r in ranks)
        self.rate = (self.mass + 2) / (state.dim + self.mass + 5)
        self.expected = math.sqrt(state.dim) * (1 - 1 / (4 * state.dim) + 1 / (21 * state.dim**2))

    def __call__(self) -> None:
        s = self.state
        noise = torch.randn(self.population, s.dim, device=s.mean.device, generator=s.generator)
        value = self.landscape(s.mean + s.sigma * noise)
        top = value.topk(self.parents, largest=False)
        chosen = noise[top.indices]
        winner, lowest = s.mean + s.sigma * chosen[0], top.values[0]
        better = lowest < s.best_value
        s.best.copy_(torch.where(better, winner, s.best))
        s.best_value.copy_(torch.minimum(lowest, s.best_value))
        step = self.weights @ chosen
        s.mean.add_(s.sigma * step)
        s.path.mul_(1 - self.rate).add_(step, alpha=math.sqrt(self.rate * (2 - self.rate) * self.mass))
        s.sigma.mul_(torch.exp(0.3 * (s.path.norm() / self.expected - 1))).clamp_(1e-8, 10.0)
