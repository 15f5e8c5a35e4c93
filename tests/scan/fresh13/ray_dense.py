"""Marches all rays a fixed number of steps; finished rays carry weight zero."""

import torch
import torch.nn as nn


class Field(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, points):
        out = self.net(points)
        return out[..., :3].sigmoid(), torch.nn.functional.softplus(out[..., 3])


class Marcher:
    def __init__(self, field, resolution=16, step=0.1, far=2.0):
        self.field = field
        self.step = step
        self.steps = int(far / step)
        self.resolution = resolution
        device = next(field.parameters()).device
        self.grid = torch.ones(resolution**3, device=device)

    def cell(self, points):
        place = ((points.clamp(-1, 0.999) + 1) / 2 * self.resolution).long()
        return (place[:, 0] * self.resolution + place[:, 1]) * self.resolution + place[:, 2]

    def note(self, points, density):
        self.grid.mul_(0.95)
        self.grid.scatter_reduce_(0, self.cell(points), density, "amax")

    def render(self, origin, direction):
        colour = torch.zeros_like(origin)
        light = torch.ones(origin.shape[0], device=origin.device)
        depth = torch.full_like(light, 0.05)
        for number in range(self.steps):
            points = origin + direction * (0.05 + number * self.step)
            rgb, density = self.field(points)
            alive = (light > 0.01).float()
            density = density * alive * (self.grid.gather(0, self.cell(points)) > 0.01)
            self.note(points, density)
            alpha = 1 - torch.exp(-density * self.step)
            colour = colour + rgb * (light * alpha).unsqueeze(1)
            light = light * (1 - alpha)
            depth = depth + self.step * alive
        return colour, depth


def build(device):
    torch.manual_seed(7)
    field = Field().to(device).requires_grad_(False)
    marcher = Marcher(field)
    origin = torch.rand(64, 3, device=device) - 0.5
    direction = torch.nn.functional.normalize(torch.randn(64, 3, device=device), dim=1)
    return marcher.render, (origin, direction)
