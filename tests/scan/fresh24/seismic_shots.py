"""Acoustic forward modelling: shots of different surveys share one propagator per grid."""
import math
import time
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F


@dataclass
class Shot:
    shape: tuple
    dt: float
    steps: int
    places: list = field(default_factory=list)
    strength: float = 1.0
    peak: float = 12.0

    def wavelet(self):
        t = torch.arange(self.steps) * self.dt - 1.2 / self.peak
        a = (math.pi * self.peak * t).square()
        return self.strength * (1 - 2 * a) * torch.exp(-a)


class Sponge:
    """Damping towards the edges of the grid."""

    def __init__(self, shape, width, device):
        ramps = []
        for n in shape:
            i = torch.arange(n, device=device)
            edge = torch.minimum(i, n - 1 - i).clamp_max(width)
            ramps.append(torch.exp(-0.015 * (width - edge).float().square()))
        self.factor = ramps[0][:, None] * ramps[1][None, :]


class Propagator:
    MAX_SOURCES = 8

    def __init__(self, velocity, dx, device):
        self.velocity, self.dx, self.device = velocity, dx, device
        shape = velocity.shape
        self.prev, self.now, self.next = (torch.zeros(shape, device=device) for _ in range(3))
        self.sponge = Sponge(shape, 8, device)
        self.cells = torch.zeros(self.MAX_SOURCES, dtype=torch.int64, device=device)
        self.amplitude = torch.zeros(self.MAX_SOURCES, device=device)
        self.receivers = torch.arange(4, shape[1] - 4, 2, device=device)
        self.trace = torch.zeros(self.receivers.shape[0], device=device)
        self.energy = torch.zeros((), device=device)
        kernel = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
        self.kernel = kernel.view(1, 1, 3, 3).to(device)

    def place(self, shot):
        width = self.velocity.shape[1]
        cells = torch.tensor([r * width + c for r, c in shot.places])
        self.cells[: len(cells)].copy_(cells)

    def advance(self, dt):
        lap = F.conv2d(self.now[None, None], self.kernel, padding=1)[0, 0]
        courant = (self.velocity * dt / self.dx).square()
        torch.add(2 * self.now - self.prev, courant * lap, out=self.next)
        self.next.view(-1).index_add_(0, self.cells, self.amplitude, alpha=dt * dt)
        self.next.mul_(self.sponge.factor)
        self.now.mul_(self.sponge.factor)
        self.trace.copy_(self.next[2, self.receivers])
        self.energy.copy_(self.next.square().mean())

    def clear(self):
        for u in (self.prev, self.now, self.next):
            u.zero_()


class ShotRunner:
    def __init__(self, dx, device, limit=1e6):
        self.dx, self.device, self.limit = dx, device, limit
        self.models, self.graphs = {}, {}
        self.stream = torch.cuda.Stream(device)

    def add_model(self, velocity):
        self.models[tuple(velocity.shape)] = Propagator(velocity.to(self.device), self.dx, self.device)

    def _capture(self, prop, dt):
        main = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            prop.advance(dt)
        main.wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            prop.advance(dt)
        return graph

    def graph_for(self, prop, shot):
        key = shot.shape
        if key not in self.graphs:
            self.graphs[key] = self._capture(prop, shot.dt)
        return self.graphs[key]

    @torch.no_grad()
    def run(self, shot):
        prop = self.models[shot.shape]
        prop.place(shot)
        graph = self.graph_for(prop, shot)
        prop.clear()
        wavelet = shot.wavelet().to(self.device)
        gather = torch.zeros(shot.steps, prop.receivers.shape[0], device=self.device)
        for n in range(shot.steps):
            prop.amplitude.copy_(wavelet[n])
            graph.replay()
            gather[n].copy_(prop.trace)
            if prop.energy.item() > self.limit:
                raise ArithmeticError(f"unstable after {n} steps")
            prop.prev, prop.now, prop.next = prop.now, prop.next, prop.prev
        return gather


def survey():
    for k in range(4):
        count = 6 if k == 0 else 2
        places = [(3, 6 + 5 * j + k) for j in range(count)]
        yield Shot((40, 48), dt=0.8e-3 if k < 2 else 1.1e-3, steps=24, places=places)


def main():
    device = torch.device("cuda", 0)
    runner = ShotRunner(dx=5.0, device=device)
    depth = torch.linspace(0, 1, 40)[:, None].expand(40, 48)
    runner.add_model(1500.0 + 1200.0 * depth)
    began = time.perf_counter()
    for number, shot in enumerate(survey()):
        gather = runner.run(shot)
        print(f"shot {number}: peak {gather.abs().max().item():.3e}")
    print(f"{time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
