"""Eight-bit linear of a trainer: a device tensor says whether this micro-batch keeps the quantised weights."""
import torch

import graphsafe


class QuantLinear:
    def __init__(self, device, dim):
        self.weight = torch.randn(dim, dim, device=device) / dim**0.5
        self.codes = torch.zeros(dim, dim, device=device)
        self.scale = torch.ones((), device=device)

    def forward(self, x, skip_update):
        scale = self.weight.abs().amax() / 127
        codes = torch.round(self.weight / scale)
        self.codes.copy_(torch.where(skip_update, self.codes, codes))
        self.scale.copy_(torch.where(skip_update, self.scale, scale))
        return torch.tanh(x @ (self.codes * self.scale).T)


class Schedule:
    def __init__(self, device, dim=10, micro=4):
        self.layers = [QuantLinear(device, dim) for _ in range(2)]
        self.micro, self.index, self.log = micro, 0, []
        self.skip = torch.zeros((), dtype=torch.bool, device=device)
        self.first = True

    def begin(self):
        self.first = self.index % self.micro == 0
        if self.first:
            self.update()
        self.skip.fill_(not self.first)
        self.index += 1

    def update(self):
        for layer in self.layers:
            layer.weight.mul_(0.9).add_(torch.randn(layer.weight.shape).to(layer.weight.device), alpha=0.1)

    def forward(self, x):
        if self.first:
            self.log.append(self.index)
        for layer in self.layers:
            x = layer.forward(x, self.skip)
        return x


def build(device):
    schedule = Schedule(device)

    def refresh(args, kwargs, k):
        schedule.begin()
        args[0].copy_(torch.randn(5, 10))

    return graphsafe.Step(schedule.forward, (torch.randn(5, 10, device=device),), refresh=refresh)
