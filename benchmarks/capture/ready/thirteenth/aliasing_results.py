"""A simulator's step returns what it was given, views of its state, and the same buffer under several names."""
from typing import NamedTuple

import torch

import graphsafe


class View(NamedTuple):
    positions: torch.Tensor
    velocities: torch.Tensor
    leaders: torch.Tensor
    command: torch.Tensor
    table: dict


class Swarm:
    def __init__(self, device, n=48):
        self.state = torch.randn(n, 2, 3, device=device)
        self.positions, self.velocities = self.state.unbind(1)
        self.speeds = torch.zeros(n, device=device)
        self.command = torch.zeros(3, device=device)
        self.box = {"positions": self.positions, "leaders": [self.positions[:4], self.velocities[:4]]}

    def step(self, command):
        difference = self.positions[:, None] - self.positions
        distance = difference.square().sum(-1).add(0.1)
        push = (difference / distance[..., None].pow(2)).mean(1)
        pull = self.positions.mean(0) - self.positions
        self.velocities.mul_(0.9).add_(0.1 * (push + 0.5 * pull + command)).clamp_(-1, 1)
        self.positions.add_(self.velocities, alpha=0.1)
        torch.linalg.vector_norm(self.velocities, dim=-1, out=self.speeds)
        self.box["speeds"] = self.speeds
        return View(self.positions, self.velocities, self.state.transpose(0, 2)[:, :, :4], command, self.box)


def build(device):
    swarm = Swarm(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3))

    return graphsafe.Step(swarm.step, (swarm.command,), {}, refresh=refresh)
