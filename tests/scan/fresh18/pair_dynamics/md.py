"""Velocity-Verlet dynamics of soft spheres in a periodic box, with a running energy report."""

from dataclasses import dataclass, field

import torch


@dataclass
class Box:
    side: float

    def nearest(self, delta: torch.Tensor) -> torch.Tensor:
        return delta - self.side * torch.round(delta / self.side)


@dataclass
class Monitor:
    """Collects one number a step for the drift of the total energy."""

    samples: list[torch.Tensor] = field(default_factory=list)

    def record(self, kinetic: torch.Tensor, potential: torch.Tensor) -> torch.Tensor:
        self.samples.append(kinetic + potential)
        track = torch.stack(self.samples)
        return (track - track[0]).abs().mean()


class SoftSpheres:
    def __init__(self, count: int, box: Box, device, dt: float = 1e-3, diameter: float = 0.3):
        grid = torch.rand(count, 3) * box.side
        self.position = grid.to(device)
        self.velocity = (torch.randn(count, 3) * 0.1).to(device)
        self.force = torch.zeros(count, 3, device=device)
        self.box, self.dt, self.diameter = box, dt, diameter
        self.monitor = Monitor()
        self.others = ~torch.eye(count, dtype=torch.bool, device=device)

    def interact(self) -> tuple[torch.Tensor, torch.Tensor]:
        delta = self.box.nearest(self.position.unsqueeze(1) - self.position.unsqueeze(0))
        distance = delta.square().sum(-1).add(1e-9).sqrt()
        overlap = (self.diameter - distance).clamp(min=0) * self.others
        force = (50.0 * overlap / distance).unsqueeze(-1) * delta
        return force.sum(1), 12.5 * overlap.square().sum()

    def step(self, damping: torch.Tensor) -> torch.Tensor:
        self.velocity.add_(self.force, alpha=self.dt / 2)
        self.position.add_(self.velocity, alpha=self.dt).remainder_(self.box.side)
        force, potential = self.interact()
        self.force.copy_(force)
        self.velocity.add_(self.force, alpha=self.dt / 2).mul_(1 - damping)
        kinetic = self.velocity.square().sum() / 2
        return self.monitor.record(kinetic, potential)


def build(device):
    torch.manual_seed(6)
    system = SoftSpheres(40, Box(1.5), device)
    damping = torch.full((1,), 1e-3, device=device)
    return system.step, (damping,)
