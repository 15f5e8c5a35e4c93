"""Lattice Boltzmann flow past a body: streaming by rolls into a second array, collision back into the first."""
import torch

import graphsafe

VELOCITIES = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]


class Fluid:
    def __init__(self, device, height=24, width=48):
        self.weights = torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, device=device)
        self.cx = torch.tensor([float(v[0]) for v in VELOCITIES], device=device)
        self.cy = torch.tensor([float(v[1]) for v in VELOCITIES], device=device)
        self.f = self.weights[:, None, None].expand(9, height, width).clone()
        self.moved = torch.empty_like(self.f)
        self.body = torch.zeros(height, width, dtype=torch.bool, device=device)
        self.body[8:16, 12:15] = True
        self.wind = torch.full((), 0.05, device=device)
        self.opposite = torch.tensor(OPPOSITE, device=device)

    def equilibrium(self, density, ux, uy):
        along = self.cx[:, None, None] * ux + self.cy[:, None, None] * uy
        square = 1.5 * (ux * ux + uy * uy)
        return density * self.weights[:, None, None] * (1 + 3 * along + 4.5 * along * along - square)

    def step(self):
        for i, (x, y) in enumerate(VELOCITIES):
            self.moved[i].copy_(self.f[i].roll((y, x), (0, 1)))
        bounced = self.moved.index_select(0, self.opposite)
        density = self.moved.sum(0)
        ux = (self.moved * self.cx[:, None, None]).sum(0) / density
        uy = (self.moved * self.cy[:, None, None]).sum(0) / density
        collided = self.moved + 0.9 * (self.equilibrium(density, ux, uy) - self.moved)
        torch.where(self.body, bounced, collided, out=self.f)
        inlet = self.equilibrium(density.new_ones(density.shape[0], 1), self.wind, torch.zeros_like(self.wind))
        self.f[:, :, :1].copy_(inlet)
        return ux, uy.abs().amax()


def build(device):
    fluid = Fluid(device)
    return graphsafe.Step(fluid.step, (), {}, refresh=lambda args, kwargs, k: fluid.wind.fill_(0.05 + 0.02 * ((k // 20) % 3)))
