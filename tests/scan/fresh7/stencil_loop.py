"""Screened Poisson on a square: damped sweeps and a coarse correction in one graph, checked in chunks."""
import contextlib
import sys

import torch
import torch.nn.functional as F


@contextlib.contextmanager
def warm_lane(device):
    lane = torch.cuda.Stream(device)
    lane.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(lane):
        yield
    torch.cuda.current_stream(device).wait_stream(lane)


class Field:
    def __init__(self, n, device):
        self.now = torch.zeros(1, 1, n, n, device=device)
        self.then = torch.zeros_like(self.now)
        self.rhs = torch.zeros_like(self.now)

    def pair(self):
        return self.now, self.then


class Coarse:
    """The coarse operator's inverse is made once, so a correction is a matrix product."""

    def __init__(self, n, factor, device):
        m = (n // factor) ** 2
        self.factor, self.side = factor, n // factor
        a = torch.randn(m, m, device=device) / m
        self.inverse = torch.linalg.inv(a @ a.T + torch.eye(m, device=device))

    def correct(self, res):
        r = F.avg_pool2d(res, self.factor).reshape(-1, 1)
        e = self.inverse @ r
        return F.interpolate(e.view(1, 1, self.side, self.side), scale_factor=self.factor, mode="nearest")


class StencilSolver:
    def __init__(self, n=64, sweeps=5, damping=0.8, kappa=0.1, device=None):
        self.device = device
        self.field = Field(n, device)
        self.coarse = Coarse(n, 8, device)
        self.sweeps, self.damping, self.kappa = sweeps, damping, kappa
        k = torch.zeros(1, 1, 3, 3)
        k[0, 0, 0, 1] = k[0, 0, 2, 1] = k[0, 0, 1, 0] = k[0, 0, 1, 2] = 1.0
        self.stencil = k.to(device)
        self.norm = torch.zeros((), device=device)
        self.graph = None

    def residual(self, u):
        f = self.field
        return f.rhs + F.conv2d(u, self.stencil, padding=1) - (4.0 + self.kappa) * u

    def cycle(self):
        f = self.field
        a, b = f.pair()
        for _ in range(self.sweeps):
            torch.add(a, self.residual(a), alpha=self.damping / (4.0 + self.kappa), out=b)
            a, b = b, a
        if a is not f.now:
            f.now.copy_(a)
        r = self.residual(f.now)
        f.now.add_(self.coarse.correct(r), alpha=0.5)
        self.norm.copy_(r.norm())

    def prepare(self):
        with warm_lane(self.device):
            for _ in range(2):
                self.cycle()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.cycle()

    def solve(self, rhs, cycles=60):
        f = self.field
        f.rhs.copy_(rhs)
        f.now.zero_()
        for _ in range(cycles):
            self.graph.replay()
        return f.now.clone(), self.norm.clone()


def main(argv):
    n = int(argv[1]) if len(argv) > 1 else 64
    dev = torch.device("cuda", torch.cuda.current_device())
    with torch.no_grad():
        solver = StencilSolver(n, device=dev)
        solver.prepare()
        found = []
        for seed in range(4):
            torch.manual_seed(seed)
            found.append(solver.solve(torch.randn(1, 1, n, n, device=dev)))
    peaks = torch.stack([u.abs().max() for u, _ in found]).tolist()
    norms = torch.stack([r for _, r in found]).tolist()
    for seed, (p, r) in enumerate(zip(peaks, norms)):
        print(seed, p, r)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
