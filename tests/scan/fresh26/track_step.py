"""Associates detections with tracks and keeps a short appearance history."""
import random

import torch
from torch import nn


class Appearance(nn.Module):
    def __init__(self, features=12, width=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, crops):
        z = self.net(crops)
        return z / z.norm(dim=-1, keepdim=True).clamp_min(1e-6)


class History:
    def __init__(self, depth, tracks, width, device):
        self.ring = torch.zeros(depth, tracks, width, device=device)
        self.depth = depth
        self.head = 0

    def push(self, row):
        self.ring[self.head].copy_(row)
        self.head = (self.head + 1) % self.depth

    def average(self):
        return self.ring.mean(dim=0)


class Motion:
    def __init__(self, tracks, device):
        self.state = torch.zeros(tracks, 4, device=device)
        self.gain = torch.tensor([0.6, 0.6, 0.3, 0.3], device=device)

    def predict(self):
        self.state[:, :2] += self.state[:, 2:]
        return self.state[:, :2]

    def correct(self, measured):
        delta = measured - self.state[:, :2]
        self.state += self.gain * torch.cat([delta, delta], dim=1)


class Tracker:
    def __init__(self, tracks, device, depth=4, jitter=0.05):
        self.encoder = Appearance().to(device).eval()
        self.history = History(depth, tracks, 16, device)
        self.motion = Motion(tracks, device)
        self.jitter = jitter
        self.reach = 1.5

    def _cost(self, boxes, z):
        near = torch.cdist(self.motion.predict(), boxes)
        look = 1.0 - self.history.average() @ z.T
        return near + look

    @torch.no_grad()
    def step(self, crops, boxes):
        z = self.encoder(crops)
        cost = self._cost(boxes, z) + self.jitter * random.random()
        best, match = cost.min(dim=1)
        self.history.push(z[match])
        self.motion.correct(boxes[match])
        lost = torch.nonzero(best > self.reach).flatten()
        self.motion.state[:, 2:].index_fill_(0, lost, 0.0)
        return match, best, self.motion.state.clone()


def build(device):
    torch.manual_seed(21)
    tracker = Tracker(6, device)
    crops = torch.randn(9, 12, device=device)
    boxes = torch.rand(9, 2, device=device) * 4
    return tracker.step, (crops, boxes)
