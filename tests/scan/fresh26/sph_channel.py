"""Weakly compressible SPH flow in a periodic channel with adaptive time steps and a viscosity sweep."""
import torch


class Kernel:
    def __init__(self, radius):
        self.radius = radius
        self.norm = 15.0 / (7.0 * torch.pi * radius ** 2)

    def weight(self, dist):
        q = (1.0 - dist / self.radius).clamp_min(0.0)
        return self.norm * q.pow(3)

    def slope(self, dist):
        q = (1.0 - dist / self.radius).clamp_min(0.0)
        return -3.0 * self.norm / self.radius * q.square()


class Channel:
    """Particle state; the first `active` slots of each buffer take part in a step."""

    def __init__(self, capacity, device, seed=2):
        g = torch.Generator().manual_seed(seed)
        self.pos = torch.rand(capacity, 2, generator=g).to(device)
        self.vel = (0.05 * torch.randn(capacity, 2, generator=g)).to(device)
        self.rho = torch.ones(capacity, device=device)
        self.dt = torch.full((), 1e-3, device=device)
        self.courant = torch.zeros(2, device=device)
        self.capacity = capacity


class FlowSolver:
    def __init__(self, channel, kernel, sound_speed=4.0, drive=0.3):
        self.ch = channel
        self.kernel = kernel
        self.c0 = sound_speed
        self.drive = drive
        self.graphs = {}
        self.host_courant = torch.zeros(2, pin_memory=True)
        self.elapsed = 0.0

    def _advance(self, count, viscosity):
        pos, vel, rho = self.ch.pos[:count], self.ch.vel[:count], self.ch.rho[:count]
        delta = pos[:, None] - pos[None]
        delta = delta - delta.round()
        dist = (delta.square().sum(-1) + 1e-10).sqrt()
        density = self.kernel.weight(dist).sum(1) / count
        rho.copy_(density)
        pressure = self.c0 ** 2 * (density - density.mean())
        slope = self.kernel.slope(dist) / (dist * count)
        push = (pressure[:, None] + pressure[None]) / (density[:, None] * density[None]).clamp_min(1e-4)
        accel = -(push * slope).unsqueeze(-1).mul(delta).sum(1)
        shear = (vel[None] - vel[:, None]) * self.kernel.weight(dist).unsqueeze(-1)
        accel = accel + viscosity * shear.sum(1) / count
        accel[:, 0] += self.drive
        vel.add_(self.ch.dt * accel)
        pos.add_(self.ch.dt * vel).remainder_(1.0)
        self.ch.courant[0].copy_(vel.norm(dim=-1).max())
        self.ch.courant[1].copy_(accel.norm(dim=-1).max())

    def _graph_for(self, active, viscosity):
        count = min(active, self.ch.capacity)
        if count not in self.graphs:
            saved = [t.clone() for t in (self.ch.pos, self.ch.vel)]
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._advance(count, viscosity)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._advance(count, viscosity)
            self.ch.pos.copy_(saved[0])
            self.ch.vel.copy_(saved[1])
            self.graphs[count] = graph
        return self.graphs[count]

    def step(self, active, viscosity):
        self._graph_for(active, viscosity).replay()
        self.host_courant.copy_(self.ch.courant, non_blocking=True)
        speed, accel = self.host_courant.tolist()
        dt = 0.3 * self.kernel.radius / (self.c0 + speed + accel * self.kernel.radius)
        self.ch.dt.fill_(dt)
        self.elapsed += dt
        fast = torch.nonzero(self.ch.vel.norm(dim=-1) > 0.5 * self.c0).squeeze(1)
        self.ch.vel.index_fill_(0, fast, 0.0)


def main():
    device = torch.device("cuda")
    channel = Channel(96, device)
    solver = FlowSolver(channel, Kernel(0.18))
    for stage, viscosity in enumerate((0.5, 0.2, 0.08)):
        for k in range(8):
            solver.step(active=48 + 48 * (k // 4), viscosity=viscosity)
        flow = channel.vel[:, 0].mean()
        print(f"stage {stage} nu={viscosity} t={solver.elapsed:.4f} mean flow {flow.item():.5f}")


if __name__ == "__main__":
    main()
