"""Particles in a periodic box under a barostat: faulty, the property setter of the box keeps the new tensor."""
import torch

import graphsafe


class System:
    def __init__(self, particles, device):
        self._box = torch.full((3,), 4.0, device=device)
        self.positions = torch.rand(particles, 3, device=device) * 4

    @property
    def box(self):
        return self._box

    @box.setter
    def box(self, value):
        self._box = value


def build(device, particles=8):
    system = System(particles, device)

    def step(noise):
        between = system.positions.unsqueeze(1) - system.positions
        between = between - system.box * (between / system.box).round()
        squares = between.square().sum(-1, keepdim=True)
        forces = (between * torch.exp(-squares)).sum(1)
        moved = system.positions + 0.1 * forces + 0.05 * noise
        system.positions.copy_(torch.remainder(moved, system.box))
        return forces, system.positions.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(particles, 3))
        if k % 12 == 11:
            factor = 1.05 if k % 24 == 11 else 0.97
            system.box = system.box * factor
            system.positions.mul_(factor)

    return graphsafe.Step(step, (torch.randn(particles, 3, device=device),), refresh=refresh)
