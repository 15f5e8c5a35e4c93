"""Replica exchange of Langevin walkers: faulty, a swap replaces the tensor of temperatures."""
import torch

import graphsafe


class Replicas:
    __slots__ = ("positions", "temperatures")

    def __init__(self, device, count=4):
        self.positions = torch.zeros(count, 2, device=device)
        self.temperatures = torch.logspace(-1, 0.5, count, device=device)

    def energy(self):
        x, y = self.positions.unbind(1)
        return (x.square() - 1).square() + 0.5 * y.square()

    def swap(self, order):
        self.temperatures = self.temperatures[order]


def build(device, rate=0.02):
    replicas = Replicas(device)

    def step(noise):
        x, y = replicas.positions.unbind(1)
        force = torch.stack([-4 * x * (x.square() - 1), -y], 1)
        kick = torch.sqrt(2 * rate * replicas.temperatures).unsqueeze(1) * noise
        replicas.positions.add_((rate * force + kick).clamp(-0.5, 0.5))
        return replicas.energy()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 2))
        if k % 16 == 0:
            first = k // 16 % 3
            order = list(range(4))
            order[first], order[first + 1] = order[first + 1], order[first]
            replicas.swap(order)

    return graphsafe.Step(step, (torch.randn(4, 2, device=device),), refresh=refresh)
