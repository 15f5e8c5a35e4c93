"""A robot's policy is damped while a brake file exists: sound, the loop asks for the file and fills a gain."""
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
        self.register_buffer("gain", torch.ones(()))

    def forward(self, seen):
        return torch.tanh(self.net(seen)) * self.gain


def build(device):
    policy = Policy().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        policy.gain.fill_(0.1 if os.path.exists(BRAKE) else 1.0)

    return graphsafe.Step(policy, (torch.randn(4, 8, device=device),), refresh=refresh)
