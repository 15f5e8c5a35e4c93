import torch


class Simulation:
    """Leapfrog integration of softened gravity with two position buffers."""

    def __init__(self, device, bodies=64, dt=1e-2, softening=0.05):
        gen = torch.Generator(device="cpu").manual_seed(12)
        self.device = device
        self.dt = dt
        self.softening = softening
        self.start_pos = torch.randn(bodies, 3, generator=gen).to(device)
        self.start_vel = torch.randn(bodies, 3, generator=gen).mul(0.1).to(device)
        self.mass = torch.rand(bodies, 1, generator=gen).to(device)
        self.front = self.start_pos.clone()
        self.back = self.start_pos.clone()
        self.vel = self.start_vel.clone()
        self.energy = torch.zeros((), device=device)
        self.graph = torch.cuda.CUDAGraph()

    def reset(self):
        self.front.copy_(self.start_pos)
        self.back.copy_(self.start_pos)
        self.vel.copy_(self.start_vel)

    def _accelerate(self, pos):
        gap = pos.unsqueeze(0) - pos.unsqueeze(1)
        inv = (gap.square().sum(-1, keepdim=True) + self.softening).rsqrt()
        return (self.mass.unsqueeze(0) * gap * inv.pow(3)).sum(dim=1)

    def advance(self):
        self.vel.add_(self._accelerate(self.front), alpha=self.dt)
        torch.add(self.front, self.vel, alpha=self.dt, out=self.back)
        self.energy.copy_(0.5 * (self.mass * self.vel.square()).sum())
        self.front, self.back = self.back, self.front

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self.advance()
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.advance()
        self.reset()

    def run(self, steps, trace):
        for i in range(steps):
            self.graph.replay()
            torch.cuda.synchronize()
            trace[i].copy_(self.energy)
        return self.front


def main():
    device = torch.device("cuda")
    sim = Simulation(device)
    sim.capture()
    trace = torch.zeros(50, device=device)
    final = sim.run(50, trace)
    print("drift", (trace[-1] - trace[0]).item(), "spread", final.std().item())


if __name__ == "__main__":
    main()
