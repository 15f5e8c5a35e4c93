"""Charged particles in a box, with the mesh force on its own branch of the graph."""
import argparse

import torch


class Mesh:
    """Coarse density mesh whose running mean damps the long-range field."""

    def __init__(self, cells, device, decay=0.9):
        self.cells = cells
        self.decay = decay
        self.mean = torch.zeros(cells * cells, device=device)

    def clear(self):
        self.mean.zero_()

    def field(self, pos):
        c = self.cells
        ij = (pos * c).long().clamp(0, c - 1)
        flat = ij[:, 0] * c + ij[:, 1]
        rho = pos.new_zeros(c * c).index_add_(0, flat, torch.ones_like(pos[:, 0]))
        self.mean.mul_(self.decay).add_(rho, alpha=1 - self.decay)
        grid = self.mean.view(c, c)
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
        self.start = torch.rand(n, 2, device=device)
        self.pos = self.start.clone()
        self.vel = torch.zeros(n, 2, device=device)
        self.far = torch.zeros(n, 2, device=device)
        self.energy = torch.zeros((), device=device)
        self.bias = torch.tensor([0.0, -0.05], device=device)
        self.near = Pairwise(1e-3)
        self.mesh = Mesh(cells, device)
        self.side = torch.cuda.Stream(device)
        self.graph = None

    def _step(self):
        main = torch.cuda.current_stream(self.device)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            self.far.copy_(self.mesh.field(self.pos))
        close = self.near(self.pos) + self.bias
        main.wait_stream(self.side)
        self.vel.add_(close + 1e-3 * self.far, alpha=self.dt)
        self.pos.add_(self.vel, alpha=self.dt).remainder_(1.0)
        self.energy.copy_(0.5 * self.vel.square().sum())

    def rewind(self):
        self.pos.copy_(self.start)
        self.vel.zero_()
        self.mesh.clear()

    @torch.no_grad()
    def record(self):
        warm = torch.cuda.Stream(self.device)
        warm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()
        self.rewind()

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
