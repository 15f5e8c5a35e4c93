"""Fits a radiance field on rays; a grid of occupied cells, refreshed now and then, skips empty space."""

import torch
import torch.nn as nn

CELLS, RAYS, SAMPLES = 16, 64, 24


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 4))

    def forward(self, points):
        out = self.body(points)
        return torch.nn.functional.softplus(out[..., 0]), out[..., 1:].sigmoid()


class Fitter:
    def __init__(self):
        self.field = Field().cuda()
        self.grid = torch.ones(CELLS, CELLS, CELLS, device="cuda")
        self.origins = torch.zeros(RAYS, 3, device="cuda")
        self.ways = torch.zeros(RAYS, 3, device="cuda")
        self.colors = torch.zeros(RAYS, 3, device="cuda")
        self.depths = torch.linspace(0.05, 1.0, SAMPLES, device="cuda")
        self.opt = torch.optim.Adam(self.field.parameters(), lr=2e-3, capturable=True)

    def fit(self):
        self.opt.zero_grad(set_to_none=False)
        points = self.origins[:, None] + self.ways[:, None] * self.depths[:, None]
        cell = (points.clamp(0, 0.999) * CELLS).long()
        density, color = self.field(points)
        density = density * self.grid[cell[..., 0], cell[..., 1], cell[..., 2]]
        alpha = 1 - torch.exp(-density / SAMPLES)
        light = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
        image = ((alpha * light)[..., None] * color).sum(1)
        loss = (image - self.colors).square().mean()
        loss.backward()
        self.opt.step()
        return loss

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.fit()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.fit()

    @torch.no_grad()
    def prune(self, threshold):
        axis = (torch.arange(CELLS, device="cuda") + 0.5) / CELLS
        centers = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1)
        density, _ = self.field(centers)
        self.grid = (density > threshold).float()
        return torch.nonzero(self.grid)

    def refill(self):
        self.origins.uniform_()
        self.ways.copy_(torch.nn.functional.normalize(torch.randn(RAYS, 3, device="cuda"), dim=-1))
        self.colors.copy_(self.origins.square())


def main():
    torch.manual_seed(8)
    fitter = Fitter()
    fitter.refill()
    fitter.record()
    kept = []
    for step in range(64):
        fitter.refill()
        fitter.graph.replay()
        if step % 16 == 15:
            kept.append(fitter.prune(0.3).shape[0])
            print(f"step {step}: loss {fitter.loss:.5f}, cells {kept[-1]}")
    torch.save((fitter.field.state_dict(), kept), "field.pt")


if __name__ == "__main__":
    main()
