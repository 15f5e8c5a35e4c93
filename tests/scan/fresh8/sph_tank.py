"""A small smoothed-particle tank; a substep is captured, a frame replays several."""
from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Tank:
    count: int = 2048
    radius: float = 0.04
    stiffness: float = 60.0
    rest: float = 900.0
    gravity: float = -9.81
    substeps: int = 8
    courant: float = 0.4
    splash: float = 3.0


class Fluid:
    def __init__(self, tank: Tank, device: torch.device):
        self.tank = tank
        self.device = device
        side = int(tank.count ** 0.5) + 1
        grid = torch.arange(tank.count, device=device)
        self.pos = torch.stack([grid % side, grid // side], dim=1) * (tank.radius * 0.6)
        self.vel = torch.zeros(tank.count, 2, device=device)
        self.pull = torch.zeros(2, device=device)
        self.pull[1:].fill_(tank.gravity)
        self.h = 0.002
        self.time = 0.0
        self.sprayed = 0
        self.recorded: torch.cuda.CUDAGraph | None = None

    def _pressure(self) -> torch.Tensor:
        apart = self.pos[:, None] - self.pos[None]
        dist = apart.square().sum(-1).add(1e-9).sqrt()
        near = (1 - dist / self.tank.radius).clamp_min(0)
        rho = near.square().sum(1) * self.tank.rest / 4
        push = self.tank.stiffness * (rho - self.tank.rest).clamp_min(0)
        pair = (push[:, None] + push[None]) * near / dist
        return (pair[..., None] * apart).sum(1) / self.tank.rest

    def substep(self) -> None:
        force = self._pressure() + self.pull
        self.vel.add_(force, alpha=self.h)
        self.pos.add_(self.vel, alpha=self.h)
        self.pos.clamp_(0.0, 1.0)

    def record(self) -> None:
        keep = self.pos.clone(), self.vel.clone()
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.substep()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.recorded, stream=stream):
            self.substep()
        self.pos.copy_(keep[0])
        self.vel.copy_(keep[1])

    def frame(self) -> None:
        for _ in range(self.tank.substeps):
            self.recorded.replay()
        self.time += self.h * self.tank.substeps
        speed = self.vel.norm(dim=1)
        fastest = max(speed.max().item(), 1e-3)
        self.h = min(0.004, self.tank.courant * self.tank.radius / fastest)
        drops = self.pos[speed > self.tank.splash]
        self.sprayed += drops.shape[0]


def simulate(seconds: float, device: torch.device) -> Fluid:
    fluid = Fluid(Tank(), device)
    fluid.record()
    while fluid.time < seconds:
        fluid.frame()
    return fluid


if __name__ == "__main__":
    with torch.cuda.device(0):
        done = simulate(2.0, torch.device("cuda", 0))
    print(done.sprayed, done.pos.mean(dim=0).tolist())
