import torch
from torch import nn


class OccupancyGrid(nn.Module):
    def __init__(self, resolution=16, threshold=0.5):
        super().__init__()
        self.resolution = resolution
        self.threshold = threshold
        self.register_buffer("density", torch.rand(resolution, resolution, resolution))

    def occupied(self, pts):
        idx = ((pts * 0.5 + 0.5).clamp(0, 0.999) * self.resolution).long()
        return self.density[idx[..., 0], idx[..., 1], idx[..., 2]] > self.threshold


class RayMarcher:
    def __init__(self, grid, samples, near=0.1, far=2.0):
        self.grid = grid
        self.samples = samples
        self.near, self.far = near, far
        self.ts = torch.linspace(near, far, samples, device=grid.density.device)

    def march(self, origins, dirs):
        pts = origins[:, None] + dirs[:, None] * self.ts[:, None]
        live = self.grid.occupied(pts)
        ray = torch.arange(origins.shape[0], device=origins.device)
        owner = torch.repeat_interleave(ray, live.sum(1))
        return pts, live, owner


class Field(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, pts):
        raw = self.net(pts)
        return raw[:, :3].sigmoid(), nn.functional.softplus(raw[:, 3])


class Renderer(nn.Module):
    def __init__(self, field, marcher):
        super().__init__()
        self.field = field
        self.marcher = marcher

    @torch.no_grad()
    def forward(self, origins, dirs):
        pts, live, owner = self.marcher.march(origins, dirs)
        kept = pts[live]
        rgb, sigma = self.field(kept)
        weight = 1 - torch.exp(-sigma * 0.03)
        image = torch.zeros(origins.shape[0], 3, device=origins.device)
        image.index_add_(0, owner, weight[:, None] * rgb)
        return image


def build(device):
    torch.manual_seed(2)
    grid = OccupancyGrid().to(device)
    renderer = Renderer(Field().to(device), RayMarcher(grid, 24))
    origins = torch.rand(20, 3, device=device) - 0.5
    dirs = torch.nn.functional.normalize(torch.randn(20, 3, device=device), dim=-1)
    return renderer, (origins, dirs)
