"""Charged particles in a box: short-range and mesh forces, integrated by replay."""
import argparse

import torch


class Mesh:
    """Coarse density mesh whose running mean damps the long-range field."""

    def __init__(self, cells, decay=0.9):
        self.cells = cells
        self.decay = decay
        self._mean = None

    def field(self, pos):
        c = self.cells
        ij = (pos * c).long().clamp(0, c - 1)
        flat = ij[:, 0] * c + ij[:, 1]
        if self._mean is None:
            self._mean = torch.zeros(c * c, device=pos.device)
        rho = pos.new_zeros(c * c).index_add_(0, flat, torch.ones_like(pos[:, 0]))
        self._mean.mul_(self.decay).add_(rho, alpha=1 - self.decay)
        grid = self._mean.view(c, c)
        gx = grid.roll(-1, 0) - grid.roll(1, 0)
        gy = grid.roll(-1, 1) - grid.roll(1, 1)
        return -torch.stack([gx.flatten()[flat], gy.flatten()[flat]], dim=1)


class Pairwise:
    def __init__(self, strength, soft=1e-2):
        self.strength = strength
        self.soft = soft

    def __call__(self, pos):
        d = pos[:, None] - pos[None]
        inv = (d.square().sum(-1) + self.soft).rsqrt()
        return self.strength * (d * inv[..., None] ** 3).sum(1)


class Box:
    def __init__(self, n, device, dt=1e-3, cells=16):
        self.dt = dt
        self.device = device
        self.pos = torch.rand(n, 2, device=device)
        self.vel = torch.zeros(n, 2, device=device)
        self.far = torch.zeros(n, 2, device=device)
        self.near = Pairwise(1e-3)
        self.mesh = Mesh(cells)
        self.side = torch.cuda.Stream(device)
        self.energy = None
        self.graph = None

    def _drift(self):
        bias = torch.tensor([0.0, -0.05], device=self.device)
        return bias.expand_as(self.pos)

    def _step(self):
        main = torch.cuda.current_stream(self.device)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            self.far.copy_(self.mesh.field(self.pos))
        force = self.near(self.pos) + self._drift() + 1e-3 * self.far
        self.vel.add_(force, alpha=self.dt)
        self.pos.add_(self.vel, alpha=self.dt).remainder_(1.0)
        self.energy = 0.5 * self.vel.square().sum()

    @torch.no_grad()
    def record(self):
        torch.cuda.synchronize(self.device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def run(self, steps):
        for _ in range(steps):
            self.graph.replay()
        return self.energy


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--particles", type=int, default=1024)
    ap.add_argument("--blocks", type=int, default=10)
    ap.add_argument("--block-steps", type=int, default=100)
    args = ap.parse_args()
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(1)
    box = Box(args.particles, device)
    box.record()
    for b in range(args.blocks):
        energy = box.run(args.block_steps)
        print(f"block {b}: kinetic energy {energy.item():.5f}")


if __name__ == "__main__":
    main()
