"""Gives experts without work a share of the busiest one, in place and chosen on the device."""

import torch
from layer import EXPERTS, Experts


class Balancer:
    def __init__(self, layer: Experts, every: int, noise: float = 0.1):
        self.layer, self.every, self.noise = layer, every, noise
        self.numbers = torch.arange(EXPERTS, device=layer.load.device)

    def split(self, stack: torch.Tensor, source: torch.Tensor, cold: torch.Tensor, noise: float) -> None:
        mixed = stack.index_select(0, source) + noise * torch.randn_like(stack)
        shape = [EXPERTS] + [1] * (stack.dim() - 1)
        stack.copy_(torch.where(cold.view(shape), mixed, stack))

    @torch.no_grad()
    def __call__(self, number: int) -> None:
        if number % self.every != self.every - 1:
            return
        load = self.layer.load
        cold = self.numbers == load.argmin()
        source = torch.where(cold, load.argmax(), self.numbers)
        self.split(self.layer.up, source, cold, self.noise)
        self.split(self.layer.down, source, cold, self.noise)
        self.split(self.layer.router.weight, source, cold, 0.0)
        load.zero_()
