"""Incompressible flow in a box. The pressure sweep is a graph; the driver iterates it to a tolerance."""
from dataclasses import dataclass, field

import numpy as np
import torch


@dataclass
class Fields:
    n: int
    device: torch.device
    p: torch.Tensor = field(init=False)
    rhs: torch.Tensor = field(init=False)
    lid: torch.Tensor = field(init=False)

    def __post_init__(self):
        make = lambda: torch.zeros(self.n, self.n, device=self.device)
        self.p, self.rhs, self.lid = make(), make(), make()
        checker = torch.arange(self.n, device=self.device)
        self.red = ((checker[:, None] + checker[None]) % 2).float()
        self.black = 1 - self.red


class Sweep:
    def __init__(self, f, omega):
        self.f, self.omega = f, omega
        self.residual = None

    def neighbours(self):
        p = torch.nn.functional.pad(self.f.p[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
        return (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) / 4

    def body(self):
        for colour in (self.f.red, self.f.black):
            gs = self.neighbours() - self.f.rhs / 4 - self.f.lid
            self.f.p.add_(colour * (gs - self.f.p) * self.omega)
        self.f.p.sub_(self.f.p.mean())
        self.residual = (self.neighbours() - self.f.rhs / 4 - self.f.lid - self.f.p).abs().amax()

    def record(self):
        lane = torch.cuda.Stream(self.f.device)
        lane.wait_stream(torch.cuda.current_stream())
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(lane):
            self.body()
            self.body()
            self.graph.capture_begin()
            self.body()
            self.graph.capture_end()
        torch.cuda.current_stream().wait_stream(lane)


class Driver:
    def __init__(self, n, device):
        self.f = Fields(n, device)
        self.sweep = Sweep(self.f, omega=1.0)
        self.sweep.record()
        self.rho = np.cos(np.pi / n)
        self.work = []

    def solve(self, tol, most):
        for k in range(most):
            if k:
                self.sweep.omega = 1 / (1 - 0.25 * self.rho**2 * self.sweep.omega)
            self.sweep.graph.replay()
            if self.sweep.residual < tol:
                break
        self.work.append((k, self.sweep.residual))

    def advance(self, step):
        self.f.lid[0].fill_(0.02 * float(np.sin(0.3 * step)))
        source = torch.linspace(-1, 1, self.f.n, device=self.f.device)
        self.f.rhs = torch.outer(source, source.flip(0)) * 0.1 * (step + 1)
        self.sweep.omega = 1.0
        self.solve(1e-5, 9)


@torch.no_grad()
def main(device="cuda"):
    driver = Driver(16, torch.device(device))
    for step in range(6):
        driver.advance(step)
    for sweeps, residual in driver.work:
        print(sweeps, f"{residual.item():.2e}")


if __name__ == "__main__":
    main()
