"""1-D compressible Euler equations, Rusanov flux, SSP-RK2 in time."""
import torch

GAMMA = 1.4


def primitive(q):
    rho = q[0].clamp_min(1e-6)
    vel = q[1] / rho
    p = (GAMMA - 1.0) * (q[2] - 0.5 * rho * vel * vel)
    return rho, vel, p.clamp_min(1e-6)


def rusanov(q):
    rho, vel, p = primitive(q)
    f = torch.stack([q[1], q[1] * vel + p, (q[2] + p) * vel])
    speed = vel.abs() + (GAMMA * p / rho).sqrt()
    a = torch.maximum(speed[1:], speed[:-1])
    return 0.5 * (f[:, 1:] + f[:, :-1]) - 0.5 * a * (q[:, 1:] - q[:, :-1])


class Tube:
    def __init__(self, cells, device, cfl=0.4):
        self.n = cells
        self.dx = 1.0 / cells
        self.cfl = cfl
        x = (torch.arange(cells, device=device) + 0.5) * self.dx
        left = x < 0.5
        rho = torch.where(left, 1.0, 0.125)
        p = torch.where(left, 1.0, 0.1)
        self.q = torch.stack([rho, torch.zeros_like(rho), p / (GAMMA - 1.0)])
        self.inflow = self.q[:, 0].clone()
        self.dt = self.stable_dt()
        self.stream = torch.cuda.Stream(device)
        self.graph = None

    def stable_dt(self):
        rho, vel, p = primitive(self.q)
        fastest = (vel.abs() + (GAMMA * p / rho).sqrt()).max()
        return self.cfl * self.dx / fastest.item()

    def rhs(self, q):
        padded = torch.cat([self.inflow[:, None], q, q[:, -1:]], dim=1)
        flux = rusanov(padded)
        return -(flux[:, 1:] - flux[:, :-1]) / self.dx

    def advance(self):
        q1 = self.q + self.dt * self.rhs(self.q)
        self.q.copy_(0.5 * (self.q + q1 + self.dt * self.rhs(q1)))

    def compile(self):
        start = self.q.clone()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.advance()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.advance()
        self.q.copy_(start)

    def run(self, t_end, every):
        t, step, frames = 0.0, 0, []
        while t < t_end:
            self.dt = min(self.stable_dt(), t_end - t)
            self.graph.replay()
            t += self.dt
            step += 1
            if step % every == 0:
                frames.append((t, self.q))
        return t, frames

    def set_inflow(self, rho, vel, p):
        energy = p / (GAMMA - 1.0) + 0.5 * rho * vel * vel
        state = torch.tensor([rho, rho * vel, energy])
        self.inflow = state.to(self.q.device)


def total_variation(frames):
    return [(round(t, 4), (q[0, 1:] - q[0, :-1]).abs().sum()) for t, q in frames]


def main(device="cuda"):
    tube = Tube(128, torch.device(device))
    tube.compile()
    _, first = tube.run(0.06, every=4)
    tube.set_inflow(1.2, 0.4, 1.3)
    t, second = tube.run(0.06, every=4)
    for when, tv in total_variation(first) + total_variation(second):
        print(when, round(tv.item(), 4))


if __name__ == "__main__":
    main()
