import torch
from torch import nn


class Frequencies(nn.Module):
    def __init__(self, octaves):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(octaves) * torch.pi, persistent=False)

    def forward(self, x):
        phase = (x.unsqueeze(-1) * self.bands).flatten(-2)
        return torch.cat([x, phase.sin(), phase.cos()], dim=-1)


class RadianceField(nn.Module):
    def __init__(self, octaves=4, width=48):
        super().__init__()
        self.encode = Frequencies(octaves)
        inputs = 3 + 6 * octaves
        self.trunk = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.density = nn.Linear(width, 1)
        self.color = nn.Sequential(nn.Linear(width + 3, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, points, directions):
        h = self.trunk(self.encode(points))
        sigma = nn.functional.softplus(self.density(h).squeeze(-1))
        rgb = torch.sigmoid(self.color(torch.cat([h, directions.expand_as(points)], -1)))
        return sigma, rgb

    def sigma(self, points):
        return nn.functional.softplus(self.density(self.trunk(self.encode(points))).squeeze(-1))


class OccupancyGrid:
    """A running maximum of the density on a coarse grid; empty cells are switched off, not skipped."""

    def __init__(self, side, device, decay=0.95, threshold=0.01):
        self.side, self.decay, self.threshold = side, decay, threshold
        self.density = torch.ones(side ** 3, device=device)
        axis = (torch.arange(side, device=device) + 0.5) / side * 2 - 1
        self.cells = torch.cartesian_prod(axis, axis, axis)

    def lookup(self, points):
        cell = ((points + 1) * 0.5 * self.side).long().clamp(0, self.side - 1)
        flat = (cell[..., 0] * self.side + cell[..., 1]) * self.side + cell[..., 2]
        return self.density[flat] > self.threshold

    @torch.no_grad()
    def update(self, field, samples):
        picked = torch.randint(self.cells.shape[0], (samples,), device=self.cells.device)
        jitter = (torch.rand(samples, 3, device=self.cells.device) - 0.5) * 2 / self.side
        fresh = field.sigma(self.cells[picked] + jitter)
        self.density.mul_(self.decay)
        self.density.scatter_reduce_(0, picked, fresh, "amax")
