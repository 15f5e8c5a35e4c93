"""Euler-Maruyama sampling of a score model with a replayed step."""
import argparse
import math

import torch
from torch import nn


class ScoreNet(nn.Module):
    def __init__(self, dim, width=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(dim + 1, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, dim),
        )

    def forward(self, x, t):
        return self.body(torch.cat([x, t.expand(x.shape[0], 1)], dim=1))


class TimeGrid:
    """Geometric grid: short steps near the data."""

    def __init__(self, n, t_max=1.0, t_min=1e-3):
        ratio = (t_min / t_max) ** (1.0 / n)
        self.points = [t_max * ratio**i for i in range(n + 1)]

    def __iter__(self):
        yield from zip(self.points[:-1], self.points[1:])


class EulerMaruyama:
    def __init__(self, net, batch, dim, device, beta=8.0):
        self.net = net
        self.beta = beta
        self.h = 0.02
        self.x = torch.zeros(batch, dim, device=device)
        self.t = torch.ones(1, 1, device=device)
        self.graph = None

    @torch.no_grad()
    def _update(self):
        score = self.net(self.x, self.t)
        drift = -0.5 * self.beta * self.x - self.beta * score
        noise = torch.randn_like(self.x)
        self.x.sub_(drift * self.h)
        self.x.add_(noise, alpha=math.sqrt(self.beta * self.h))

    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._update()

    def sample(self, x0, grid, keep_every=5):
        self.x.copy_(x0)
        path = []
        for i, (t, t_next) in enumerate(grid):
            self.t.fill_(t)
            self.h = t - t_next
            self.graph.replay()
            if not torch.isfinite(self.x).all():
                raise FloatingPointError(f"diverged at step {i}")
            if i % keep_every == 0:
                path.append(self.x)
        return path


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--rounds", type=int, default=4)
    args = ap.parse_args()
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(7)
    net = ScoreNet(args.dim).to(device).eval()
    sampler = EulerMaruyama(net, args.batch, args.dim, device)
    sampler.prepare()
    grid = TimeGrid(args.steps)
    for _ in range(args.rounds):
        x0 = torch.randn(args.batch, args.dim, device=device)
        path = sampler.sample(x0, grid)
        spread = torch.stack(path).std(dim=(1, 2))
        print("spread along the path:", [round(s, 3) for s in spread.tolist()])


if __name__ == "__main__":
    main()
