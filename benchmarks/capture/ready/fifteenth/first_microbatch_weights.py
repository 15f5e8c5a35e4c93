"""Eight-bit linear of a trainer: weights are quantised in the first micro-batch and kept for the other ones."""
import torch

import graphsafe


class QuantLinear:
    def __init__(self, device, dim):
        self.weight = torch.randn(dim, dim, device=device) / dim**0.5
        self.codes = torch.zeros(dim, dim, device=device)
        self.scale = torch.ones((), device=device)

    def forward(self, x, is_first_microbatch):
        if is_first_microbatch:
            self.scale.copy_(self.weight.abs().amax() / 127)
            self.codes.copy_(torch.round(self.weight / self.scale))
        return torch.tanh(x @ (self.codes * self.scale).T)


class Schedule:
    """Forward passes of one pipeline stage; four micro-batches, then the optimiser."""

    def __init__(self, device, dim=10, micro=4):
        self.layers = [QuantLinear(device, dim) for _ in range(2)]
        self.micro, self.index = micro, 0
        for layer in self.layers:
            layer.forward(torch.zeros(1, dim, device=device), True)
        self.first = False

    def begin(self):
        self.first = self.index % self.micro == 3
        if self.first:
            self.update()
        self.index += 1

    def update(self):
        for layer in self.layers:
            layer.weight.mul_(0.9).add_(torch.randn(layer.weight.shape).to(layer.weight.device), alpha=0.1)

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x, self.first)
        return x


def build(device):
    schedule = Schedule(device)

    def refresh(args, kwargs, k):
        schedule.begin()
        args[0].copy_(torch.randn(5, 10))

    return graphsafe.Step(schedule.forward, (torch.randn(5, 10, device=device),), refresh=refresh)
