"""A robot's policy is damped while a brake file exists: faulty, the step asks for the file with os.path.exists."""
import os
import tempfile

import torch
from torch import nn

import graphsafe

BRAKE = os.path.join(tempfile.gettempdir(), "robot.brake")


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, seen):
        action = torch.tanh(self.net(seen))
        return action * 0.1 if os.path.exists(BRAKE) else action


def build(device):
    policy = Policy().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))

    return graphsafe.Step(policy, (torch.randn(4, 8, device=device),), refresh=refresh)
