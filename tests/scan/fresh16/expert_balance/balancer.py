"""Gives experts without work a share of the busiest one."""

import torch
import torch.nn as nn
from layer import Experts


class Balancer:
    def __init__(self, layer: Experts, every: int, noise: float = 0.1):
        self.layer, self.every, self.noise = layer, every, noise
        self.moves: list[tuple[int, int]] = []

    def split(self, stack: torch.Tensor, hot: int, cold: int) -> nn.Parameter:
        fresh = stack.detach().clone()
        fresh[cold].copy_(fresh[hot] + self.noise * torch.randn_like(fresh[hot]))
        return nn.Parameter(fresh, requires_grad=False)

    @torch.no_grad()
    def __call__(self, number: int) -> None:
        if number % self.every != self.every - 1:
            return
        loads = self.layer.load.tolist()
        hot, cold = loads.index(max(loads)), loads.index(min(loads))
        self.layer.up = self.split(self.layer.up, hot, cold)
        self.layer.down = self.split(self.layer.down, hot, cold)
        self.layer.router.weight[cold].copy_(self.layer.router.weight[hot])
        self.layer.load.zero_()
        self.moves.append((hot, cold))
