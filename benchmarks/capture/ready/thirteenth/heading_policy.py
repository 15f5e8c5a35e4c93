"""Policy of a vehicle: the heading is drawn from a von Mises distribution, the throttle from a Beta-like squash."""
import torch
import torch.nn as nn
from torch.distributions import Normal, VonMises

import graphsafe


class Policy(nn.Module):
    def __init__(self, observations=14):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.heading, self.throttle = nn.Linear(48, 3), nn.Linear(48, 2)

    def forward(self, x):
        h = self.body(x)
        a, b, c = self.heading(h).unbind(-1)
        loc = torch.atan2(a, b + 1e-3)
        heading = VonMises(loc, nn.functional.softplus(c) + 0.5, validate_args=False)
        mean, raw = self.throttle(h).unbind(-1)
        throttle = Normal(mean, nn.functional.softplus(raw) + 0.1, validate_args=False)
        turn, push = heading.sample(), throttle.sample()
        return turn, torch.tanh(push), heading.log_prob(turn) + throttle.log_prob(push)


class Vehicles:
    def __init__(self, device, n=32):
        self.policy = Policy().to(device).requires_grad_(False)
        self.pose = torch.zeros(n, 3, device=device)
        self.sensors = torch.randn(n, 11, device=device)

    def step(self):
        turn, push, logp = self.policy(torch.cat([self.pose, self.sensors], 1))
        angle = self.pose[:, 2] + 0.3 * turn
        self.pose.copy_(torch.stack([self.pose[:, 0] + push * angle.cos(), self.pose[:, 1] + push * angle.sin(), angle], 1) * 0.9)
        return self.pose, logp


def build(device):
    vehicles = Vehicles(device)
    return graphsafe.Step(vehicles.step, (), {}, refresh=lambda args, kwargs, k: vehicles.sensors.copy_(torch.randn(32, 11)))
