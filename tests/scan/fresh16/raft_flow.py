"""Optical flow between two frames, refined in rounds and started from the flow of the frame before."""

import torch
import torch.nn as nn
import torch.nn.functional as F

HEIGHT, WIDTH, CHANNELS, ROUNDS = 16, 20, 12, 8


class Refiner(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Conv2d(2 * CHANNELS + 2, 2 * CHANNELS, 3, padding=1)
        self.flow = nn.Conv2d(CHANNELS, 2, 3, padding=1)

    def forward(self, hidden, sampled, flow):
        keep, new = self.gates(torch.cat((hidden, sampled, flow), 1)).chunk(2, 1)
        hidden = torch.lerp(new.tanh(), hidden, keep.sigmoid())
        return hidden, self.flow(hidden)


class FlowNet(nn.Module):
    def __init__(self, tolerance=1e-3):
        super().__init__()
        self.features = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.refiner = Refiner()
        self.tolerance = tolerance
        rows, columns = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
        self.register_buffer("grid", torch.stack((columns, rows)).float().unsqueeze(0))
        self.last = None

    def sample(self, features, flow):
        size = torch.tensor([WIDTH - 1, HEIGHT - 1], device=flow.device).view(1, 2, 1, 1)
        place = 2 * (self.grid + flow) / size - 1
        return F.grid_sample(features, place.permute(0, 2, 3, 1), align_corners=True)

    @torch.no_grad()
    def forward(self, first, second):
        one, two = self.features(first).relu(), self.features(second).relu()
        flow = torch.zeros_like(self.grid) if self.last is None else 0.5 * self.last
        hidden = one
        for _ in range(ROUNDS):
            hidden, change = self.refiner(hidden, self.sample(two, flow), flow)
            flow = flow + 0.1 * change
            if change.abs().max() < self.tolerance:
                break
        self.last = flow
        return flow


def build(device):
    torch.manual_seed(17)
    frames = torch.rand(2, 1, 3, HEIGHT, WIDTH, device=device)
    return FlowNet().to(device).eval(), (frames[0].clone(), frames[1].clone())
