"""N-body integrator; the inner leapfrog step is a graph."""
import torch


def forces(pos, mass):
    d = pos[None] - pos[:, None]
    r2 = d.square().sum(-1) + 1e-2
    return (d * (mass[None, :, None] / r2.pow(1.5)[..., None])).sum(1)


class Integrator:
    def __init__(self, n, dt, device):
        self.dt = dt
        self.pos = torch.randn(n, 2, device=device)
        self.vel = torch.zeros(n, 2, device=device)
        self.mass = torch.ones(n, device=device)
        self.err = torch.zeros((), device=device)

    def advance(self):
        a = forces(self.pos, self.mass)
        self.vel.add_(a, alpha=self.dt)
        self.pos.add_(self.vel, alpha=self.dt)
        self.err.copy_(a.abs().max())

    def compile(self):
        p, v = self.pos.clone(), self.vel.clone()
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            self.advance()
        torch.cuda.current_stream().wait_stream(s)
        self.pos.copy_(p)
        self.vel.copy_(v)
        self.g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.g):
            self.advance()

    def accrete(self, i, extra):
        bump = torch.zeros_like(self.mass)
        bump[i] = extra
        self.mass = self.mass + bump


def main(device="cuda"):
    torch.manual_seed(9)
    sim = Integrator(12, 0.01, device)
    sim.compile()
    path = []
    for epoch in range(4):
        for _ in range(10):
            sim.g.replay()
            path.append(sim.pos)
            if sim.err > 5.0:
                sim.dt = sim.dt * 0.5
        sim.accrete(epoch, 0.5)
    print(torch.stack(path).std(0).mean().item())


if __name__ == "__main__":
    main()
