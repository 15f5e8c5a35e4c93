"""Channel flow past a row of cylinders: D2Q9 lattice Boltzmann with BGK relaxation."""
import math

import torch

DIRECTIONS = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]
WEIGHTS = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4


def cylinders(height: int, width: int, count: int, radius: float, device) -> torch.Tensor:
    rows = torch.arange(height, device=device).view(-1, 1)
    cols = torch.arange(width, device=device).view(1, -1)
    solid = torch.zeros(height, width, dtype=torch.bool, device=device)
    for k in range(count):
        cy, cx = height * (0.3 + 0.4 * (k % 2)), width * (k + 1) / (count + 2)
        solid |= (rows - cy) ** 2 + (cols - cx) ** 2 < radius**2
    return solid


class Channel:
    """Populations `f[9, H, W]`; `advance` moves the fluid by one lattice time."""

    def __init__(self, height: int, width: int, device: torch.device):
        self.solid = cylinders(height, width, 3, height / 9, device)
        self.c = torch.tensor(DIRECTIONS, dtype=torch.float32, device=device)
        self.w = torch.tensor(WEIGHTS, device=device).view(9, 1, 1)
        self.opposite = torch.tensor(OPPOSITE, device=device)
        self.viscosity = 0.02
        self.omega = 1.0 / (3.0 * self.viscosity + 0.5)
        self.ramp_length = 400
        self.age = 0
        rest = torch.ones(height, width, device=device)
        still = torch.zeros(2, height, width, device=device)
        self.f = self.equilibrium(rest, still)

    def equilibrium(self, rho: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        along = torch.einsum("qd,dyx->qyx", self.c, u)
        square = (u * u).sum(0)
        return self.w * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * square)

    def moments(self):
        rho = self.f.sum(0)
        u = torch.einsum("qd,qyx->dyx", self.c, self.f) / rho
        return rho, u

    def drive(self, u: torch.Tensor, profile: torch.Tensor) -> torch.Tensor:
        self.age += 1
        speed = 0.08 * math.sin(0.5 * math.pi * min(1.0, self.age / self.ramp_length))
        inlet = torch.stack([speed * profile, torch.zeros_like(profile)])
        return torch.cat([inlet.unsqueeze(-1), u[:, :, 1:]], dim=-1)

    def collide(self, profile: torch.Tensor):
        rho, u = self.moments()
        u = self.drive(u, profile)
        if u.abs().amax() > 0.25:
            self.omega = 1.0 / (3.0 * 2.0 * self.viscosity + 0.5)
        relaxed = self.f + self.omega * (self.equilibrium(rho, u) - self.f)
        relaxed[:, self.solid] = self.f[self.opposite][:, self.solid]
        return relaxed, rho, u

    def stream(self, populations: torch.Tensor) -> None:
        moved = [
            torch.roll(populations[q], shifts=(dy, dx), dims=(0, 1))
            for q, (dx, dy) in enumerate(DIRECTIONS)
        ]
        self.f = torch.stack(moved)

    @torch.no_grad()
    def advance(self, profile: torch.Tensor):
        relaxed, rho, u = self.collide(profile)
        self.stream(relaxed)
        drag = (u[0] * self.solid).sum() / rho.mean()
        return u, rho, drag


def build(device):
    height, width = 48, 96
    flow = Channel(height, width, device)
    y = torch.linspace(-1, 1, height, device=device)
    return flow.advance, (1 - y * y,)
