"""Weights live in pinned memory and are streamed to one staging buffer in each step; a reload pins the new ones."""

import torch

import graphsafe


class Offloaded:
    def __init__(self, device, layers=3, width=16):
        self.host = [self.pin(torch.randn(width, width) / 4) for _ in range(layers)]
        self.staging = torch.empty(width, width, device=device)

    @staticmethod
    def pin(weight):
        return weight.pin_memory() if torch.cuda.is_available() else weight.clone()

    def load(self, weights):
        self.host = [self.pin(w) for w in weights]

    def forward(self, x):
        for weight in self.host:
            self.staging.copy_(weight, non_blocking=True)
            x = torch.tanh(x @ self.staging)
        return x


def build(device):
    model = Offloaded(device)

    def reload():
        draw = torch.Generator().manual_seed(5)
        old = model.host
        model.load([torch.randn(16, 16, generator=draw) / 4 for _ in range(3)])
        for weight in old:
            weight.zero_()  # the old version is wiped

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(
        model.forward, (torch.randn(4, 16, device=device),), refresh=refresh, events={"reload": reload}
    )
