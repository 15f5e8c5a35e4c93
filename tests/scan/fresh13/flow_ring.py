"""Optical flow from the features of the last frames, which are kept in one buffer and shifted in place."""

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
    def __init__(self, history=3, width=12, height=32, breadth=48):
        super().__init__()
        self.pyramid = Pyramid(width)
        self.width = width
        self.register_buffer("past", torch.zeros(1, width * history, height // 4, breadth // 4))
        self.reduce = nn.Conv2d(width * (history + 1), width, 1)
        self.flow = nn.Conv2d(width, 2, 3, padding=1)

    def prime(self, frame):
        with torch.no_grad():
            now = self.pyramid(frame)
            self.past.copy_(now.repeat(1, self.past.shape[1] // self.width, 1, 1))

    def forward(self, frame):
        now = self.pyramid(frame)
        stacked = torch.cat([now, self.past], dim=1)
        self.past.copy_(stacked[:, : self.past.shape[1]])
        flow = self.flow(F.leaky_relu(self.reduce(stacked), 0.1))
        flow = F.interpolate(flow, scale_factor=4.0, mode="bilinear", align_corners=False)
        return flow.flip(1)


def build(device):
    torch.manual_seed(1)
    net = FlowNet().to(device).eval().requires_grad_(False)
    net.prime(torch.rand(1, 1, 32, 48, device=device))
    frame = torch.rand(1, 1, 32, 48, device=device)
    return net, (frame,)
