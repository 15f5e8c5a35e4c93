"""D2Q9 lattice Boltzmann flow in a channel with a profiled inlet."""

import numpy as np
import torch

VELOCITIES = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
WEIGHTS = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]


def parabola(height: int, peak: float) -> np.ndarray:
    y = np.linspace(-1.0, 1.0, height, dtype=np.float32)
    return peak * (1 - y**2)


class Inlet:
    """Prescribes the velocity of the first column."""

    def __init__(self, profile: np.ndarray):
        self.profile = profile

    def impose(self, velocity: torch.Tensor) -> torch.Tensor:
        column = torch.from_numpy(self.profile).to(velocity.device, non_blocking=True)
        velocity[0, :, 0] = column
        velocity[1, :, 0] = 0.0
        return velocity


class Channel:
    def __init__(self, height: int, width: int, inlet: Inlet, device, tau: float = 0.6):
        self.tau = tau
        self.inlet = inlet
        self.e = torch.tensor(VELOCITIES, dtype=torch.float32).to(device)
        self.w = torch.tensor(WEIGHTS).to(device).view(9, 1, 1)
        self.opposite = torch.tensor(OPPOSITE).to(device)
        self.f = self.w.expand(9, height, width).clone()
        self.walls = torch.zeros(height, width, dtype=torch.bool, device=device)
        self.walls[:1] = True
        self.walls[-1:] = True

    def equilibrium(self, rho: torch.Tensor, velocity: torch.Tensor) -> torch.Tensor:
        along = torch.einsum("qd,dhw->qhw", self.e, velocity)
        energy = velocity.square().sum(0)
        return self.w * rho * (1 + 3 * along + 4.5 * along.square() - 1.5 * energy)

    def stream(self, f: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.roll(f[q], (dy, dx), (0, 1)) for q, (dx, dy) in enumerate(VELOCITIES)])

    def advance(self, force: torch.Tensor) -> torch.Tensor:
        rho = self.f.sum(0)
        velocity = torch.einsum("qd,qhw->dhw", self.e, self.f) / rho
        velocity = self.inlet.impose(velocity + force)
        relaxed = self.f + (self.equilibrium(rho, velocity) - self.f) / self.tau
        bounced = self.f.index_select(0, self.opposite)
        self.f.copy_(self.stream(torch.where(self.walls, bounced, relaxed)))
        return velocity


def build(device):
    inlet = Inlet(parabola(16, 0.05))
    channel = Channel(16, 32, inlet, device)
    force = torch.rand(2, 1, 1, device=device) * 1e-4
    return channel.advance, (force,)
