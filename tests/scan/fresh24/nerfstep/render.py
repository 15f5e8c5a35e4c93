import torch


class StratifiedRays:
    def __init__(self, samples, near, far, device):
        edges = torch.linspace(near, far, samples + 1, device=device)
        self.low, self.width = edges[:-1], edges[1:] - edges[:-1]

    def depths(self, rays):
        u = torch.rand(rays, self.low.shape[0], device=self.low.device)
        return self.low + self.width * u


def composite(sigma, rgb, depths, far):
    gaps = torch.diff(depths, dim=-1, append=torch.full_like(depths[:, :1], far))
    optical = sigma * gaps
    before = torch.exp(optical - optical.cumsum(-1))
    weights = before * (1.0 - torch.exp(-optical))
    color = (weights.unsqueeze(-1) * rgb).sum(1)
    return color + (1.0 - weights.sum(-1, keepdim=True)), weights


class Renderer:
    def __init__(self, field, grid, rays, far):
        self.field, self.grid, self.rays, self.far = field, grid, rays, far

    def __call__(self, origins, directions):
        depths = self.rays.depths(origins.shape[0])
        points = origins[:, None] + depths.unsqueeze(-1) * directions[:, None]
        sigma, rgb = self.field(points, directions[:, None])
        sigma = torch.where(self.grid.lookup(points), sigma, 0.0)
        return composite(sigma, rgb, depths, self.far)
