"""Optical flow from the features of the last frames, which are kept in a deque."""

from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


class Pyramid(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.second = nn.Conv2d(width, width, 3, stride=2, padding=1)

    def forward(self, frame):
        return self.second(F.leaky_relu(self.first(frame), 0.1))


class FlowNet(nn.Module):
    def __init__(self, history=3, width=12):
        super().__init__()
        self.pyramid = Pyramid(width)
        self.history = history
        self.past = deque(maxlen=history)
        self.reduce = nn.Conv2d(width * (history + 1), width, 1)
        self.flow = nn.Conv2d(width, 2, 3, padding=1)
        self.order = [1, 0]

    def prime(self, frame):
        with torch.no_grad():
            for _ in range(self.history):
                self.past.append(self.pyramid(frame))

    def forward(self, frame):
        now = self.pyramid(frame)
        stacked = torch.cat([now, *self.past], dim=1)
        self.past.append(now)
        flow = self.flow(F.leaky_relu(self.reduce(stacked), 0.1))
        flow = F.interpolate(flow, scale_factor=4.0, mode="bilinear", align_corners=False)
        return flow[:, self.order]


def build(device):
    torch.manual_seed(1)
    net = FlowNet().to(device).eval().requires_grad_(False)
    net.prime(torch.rand(1, 1, 32, 48, device=device))
    frame = torch.rand(1, 1, 32, 48, device=device)
    return net, (frame,)
