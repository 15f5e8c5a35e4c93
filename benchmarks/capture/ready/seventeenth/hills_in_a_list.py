"""Metadynamics, hills of bias left along the way: faulty, the step sums over a list that grows."""
import torch

import graphsafe


class Metadynamics:
    width = 0.4

    def __init__(self, device, room=10):
        self.position = torch.full((2,), 0.2, device=device)
        self.hills = [torch.zeros(2, device=device)]

    def force(self):
        pull = -2 * self.position
        for hill in self.hills:
            away = self.position - hill
            pull = pull + away / self.width**2 * torch.exp(-away.square().sum() / (2 * self.width**2))
        return pull

    def leave_hill(self):
        self.hills.append(self.position.clone())


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
