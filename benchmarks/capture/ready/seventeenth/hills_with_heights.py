"""Metadynamics, hills of bias left along the way: sound, the step sums over reserved rows of height zero."""
import torch

import graphsafe


class Metadynamics:
    width = 0.4

    def __init__(self, device, room=10):
        self.position = torch.full((2,), 0.2, device=device)
        self.hills = torch.zeros(room, 2, device=device)
        self.heights = torch.zeros(room, device=device)
        self.heights[0] = 1.0
        self.used = 1

    def force(self):
        pull = -2 * self.position
        away = self.position - self.hills
        bias = self.heights * torch.exp(-away.square().sum(1) / (2 * self.width**2))
        return pull + (away / self.width**2 * bias.unsqueeze(1)).sum(0)

    def leave_hill(self):
        self.hills[self.used % len(self.hills)] = self.position
        self.heights[self.used % len(self.hills)] = 1.0
        self.used += 1


def build(device, rate=0.01):
    run = Metadynamics(device)

    def step(noise):
        run.position.add_(rate * run.force() + 0.1 * noise)
        return run.position.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2))
        if k % 12 == 0:
            run.leave_hill()

    return graphsafe.Step(step, (torch.randn(2, device=device),), refresh=refresh)
