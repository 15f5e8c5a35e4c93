"""The time stepper: lift, Fourier blocks, project, and a spectral energy limiter."""
import torch
from torch import nn

from .normalise import Standardiser
from .spectral import Block


class EnergyMonitor:
    def __init__(self, shells: int):
        self.shells = shells
        self.largest = 0.0

    def push(self, energies: torch.Tensor) -> None:
        self.largest = max(self.largest, max(energies[: self.shells].tolist()))


class Emulator(nn.Module):
    def __init__(self, fields: int = 3, channels: int = 16, modes: int = 8, depth: int = 2, grid: int = 32):
        super().__init__()
        self.standardiser = Standardiser(fields)
        self.lift = nn.Conv2d(2 * fields, channels, 1)
        self.blocks = nn.ModuleList(Block(channels, modes) for _ in range(depth))
        self.project = nn.Conv2d(channels, fields, 1)
        self.monitor = EnergyMonitor(8)
        self.register_buffer("previous", torch.zeros(1, fields, grid, grid))
        self.register_buffer("ceiling", torch.tensor(4.0))

    def tendency(self, u: torch.Tensor) -> torch.Tensor:
        change = u - self.previous
        self.previous = u.detach() * 0.9 + self.previous * 0.1
        h = self.lift(torch.cat([u, change], dim=1))
        for block in self.blocks:
            h = block(h)
        return self.project(h)

    def limit(self, v: torch.Tensor) -> torch.Tensor:
        shells = torch.fft.rfft2(v, norm="ortho").abs().square().mean(dim=(0, 1, 2))
        self.monitor.push(shells.cpu())
        damp = (self.ceiling / shells.amax()).clamp(max=1.0).sqrt()
        return v * damp

    @torch.no_grad()
    def forward(self, u: torch.Tensor) -> torch.Tensor:
        v = self.standardiser.encode(u)
        v = self.limit(v + 0.1 * self.tendency(v))
        return self.standardiser.decode(v)


def build(device):
    torch.manual_seed(11)
    model = Emulator().to(device).eval()
    state = torch.randn(1, 3, 32, 32, device=device) * 2.0 + 0.5
    return model, (state,)
