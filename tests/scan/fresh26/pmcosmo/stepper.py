"""Kick-drift-kick steps recorded once per force setting and replayed along the expansion history."""
from dataclasses import dataclass

import torch

from .mesh import Mesh


@dataclass(frozen=True)
class ForceSetting:
    softening: float
    substeps: int


class Snapshots:
    """Ring of pinned host copies; each is complete once its event has been reached."""

    def __init__(self, slots, particles):
        self.hosts = [torch.zeros(particles, 3).pin_memory() for _ in range(slots)]
        self.events = [torch.cuda.Event() for _ in range(slots)]
        self.stream = torch.cuda.Stream()
        self.used = 0

    def take(self, pos):
        frozen = pos.clone()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.hosts[self.used].copy_(frozen, non_blocking=True)
            self.events[self.used].record()
        frozen.record_stream(self.stream)
        self.used += 1

    def finish(self):
        for event in self.events[: self.used]:
            event.synchronize()
        return self.hosts[: self.used]


class Simulation:
    def __init__(self, side, particles, device, seed=6):
        gen = torch.Generator().manual_seed(seed)
        self.mesh = Mesh(side, device)
        self.pos = torch.rand(particles, 3, generator=gen).to(device)
        self.mom = torch.zeros(particles, 3, device=device)
        self.a = torch.full((), 0.1, device=device)
        self.da = torch.full((), 0.01, device=device)
        self.omega = torch.full((), 0.3, device=device)
        self.power = torch.zeros(side // 2 + 1, device=device)
        self.graphs = {}
        self.pool = None

    def _hubble(self):
        return torch.sqrt(self.omega / self.a.pow(3) + 1.0 - self.omega)

    def _kick(self, softening, step):
        delta = self.mesh.deposit(self.pos)
        fields = self.mesh.acceleration(delta, softening)
        force = self.mesh.gather(fields, self.pos)
        self.mom.add_(1.5 * self.omega * force * step / (self.a.square() * self._hubble()))
        return delta

    def _advance(self, setting):
        step = self.da / setting.substeps
        for _ in range(setting.substeps):
            self._kick(setting.softening, 0.5 * step)
            self.a.add_(0.5 * step)
            self.pos.add_(self.mom * step / (self.a.pow(3) * self._hubble())).remainder_(1.0)
            self.a.add_(0.5 * step)
            delta = self._kick(setting.softening, 0.5 * step)
        self.power.copy_(torch.fft.rfft(delta.sum((0, 1))).abs().square())

    def _record(self, setting):
        state = (self.pos, self.mom, self.a, self.power)
        kept = [t.clone() for t in state]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._advance(setting)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self._advance(setting)
        self.pool = self.pool or graph.pool()
        for t, old in zip(state, kept):
            t.copy_(old)
        return graph

    def step(self, setting, width):
        if setting not in self.graphs:
            self.graphs[setting] = self._record(setting)
        self.da.fill_(width)
        self.graphs[setting].replay()
        return self.power

    def restart(self, omega, positions):
        self.pos.copy_(positions)
        self.mom.zero_()
        self.a.fill_(0.1)
        self.omega.fill_(omega)
