"""Gravitational n-body integrator, one integration step per graph replay."""
import argparse

import torch


def pairwise_acceleration(pos: torch.Tensor, mass: torch.Tensor, soft: float) -> torch.Tensor:
    delta = pos.unsqueeze(0) - pos.unsqueeze(1)
    inv = (delta.square().sum(-1) + soft * soft).rsqrt()
    return (delta * (inv**3 * mass).unsqueeze(-1)).sum(1)


class VerletSystem:
    """Position Verlet: keeps the two latest position fields."""

    def __init__(self, pos, vel, mass, dt: float, soft: float = 0.1):
        self.mass, self.dt, self.soft = mass, dt, soft
        self.now = pos.clone()
        self.before = pos - dt * vel

    def velocity(self):
        return (self.now - self.before) / self.dt

    def energy(self):
        kinetic = 0.5 * (self.mass * self.velocity().square().sum(-1)).sum()
        delta = self.now.unsqueeze(0) - self.now.unsqueeze(1)
        dist = (delta.square().sum(-1) + self.soft**2).sqrt()
        potential = -0.5 * (self.mass.unsqueeze(0) * self.mass.unsqueeze(1) / dist).sum()
        return kinetic + potential

    def integrate(self):
        acc = pairwise_acceleration(self.now, self.mass, self.soft)
        coming = 2.0 * self.now - self.before + self.dt**2 * acc
        self._rotate(coming)

    def _rotate(self, coming):
        self.before, self.now = self.now, coming

    def snapshot(self):
        return self.now.clone(), self.before.clone()

    def restore(self, state):
        self.now.copy_(state[0])
        self.before.copy_(state[1])


class Simulation:
    def __init__(self, system: VerletSystem, device: torch.device):
        self.system = system
        self.stream = torch.cuda.Stream(device)
        self.device = device
        self.graph = self._record()

    def _record(self):
        start = self.system.snapshot()
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self.system.integrate()
        here.wait_stream(self.stream)
        self.system.restore(start)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.system.integrate()
        return graph

    def run(self, steps: int, tolerance: float):
        reference = self.system.energy()
        for done in range(1, steps + 1):
            self.graph.replay()
            drift = (self.system.energy() - reference).abs()
            if drift > tolerance * reference.abs():
                return done
        return steps


def main(device="cuda", bodies=24, steps=12):
    torch.manual_seed(6)
    device = torch.device(device)
    pos = torch.randn(bodies, 3, device=device)
    vel = 0.3 * torch.randn(bodies, 3, device=device)
    mass = torch.rand(bodies, device=device) + 0.1
    sim = Simulation(VerletSystem(pos, vel, mass, dt=0.02), device)
    done = sim.run(steps, tolerance=50.0)
    return {"steps": done, "positions": sim.system.now.clone()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    print(main(steps=parser.parse_args().steps)["positions"].norm().item())
