"""Marches rays through a radiance field and skips those that are finished."""

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
        self.far = far
        self.resolution = resolution
        device = next(field.parameters()).device
        self.grid = torch.ones(resolution**3, device=device)

    def cell(self, points):
        place = ((points.clamp(-1, 0.999) + 1) / 2 * self.resolution).long()
        return (place[:, 0] * self.resolution + place[:, 1]) * self.resolution + place[:, 2]

    def note(self, points, density):
        fresh = torch.zeros_like(self.grid).scatter_reduce(0, self.cell(points), density, "amax")
        self.grid = torch.maximum(self.grid * 0.95, fresh)

    def render(self, origin, direction):
        colour = torch.zeros_like(origin)
        light = torch.ones(origin.shape[0], device=origin.device)
        depth = torch.full_like(light, 0.05)
        alive = light > 0.01
        while alive.any():
            points = origin + direction * depth.unsqueeze(1)
            near = points[alive]
            rgb, density = self.field(near)
            density = density * (self.grid.gather(0, self.cell(near)) > 0.01)
            self.note(near, density)
            alpha = 1 - torch.exp(-density * self.step)
            share = torch.zeros_like(light).masked_scatter(alive, alpha)
            painted = torch.zeros_like(colour).masked_scatter(alive.unsqueeze(1), rgb)
            colour = colour + painted * (light * share).unsqueeze(1)
            light = light * (1 - share)
            depth = depth + self.step
            alive = (light > 0.01) & (depth < self.far)
        return colour, depth


def build(device):
    torch.manual_seed(7)
    field = Field().to(device).requires_grad_(False)
    marcher = Marcher(field)
    origin = torch.rand(64, 3, device=device) - 0.5
    direction = torch.nn.functional.normalize(torch.randn(64, 3, device=device), dim=1)
    return marcher.render, (origin, direction)
