"""Mass-spring cloth, one substep captured, the frame loop decides on time step and wind."""
import math

import torch


class Cloth:
    def __init__(self, n, device):
        self.n, self.device = n, device
        grid = torch.stack(torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij"), -1).float()
        rest = torch.cat([grid, torch.zeros(n, n, 1)], -1)
        self.x = rest.to(device)
        self.x_next = self.x.clone()
        self.v = torch.zeros_like(self.x)
        self.free = torch.ones(n, n, 1, device=device)
        self.free[0] = 0
        self.wind = torch.zeros(3, device=device)
        self.gravity = torch.zeros(3, device=device)
        self.gravity[2] = -9.8
        self.dt = 1 / 240
        self.stiffness = 180.0
        self.drag = 0.2

    def springs(self, x):
        force = torch.zeros_like(x)
        for axis in (0, 1):
            d = x.diff(dim=axis)
            length = d.norm(dim=-1, keepdim=True).clamp_min(1e-4)
            f = self.stiffness * (length - 1.0) * d / length
            pad = [0, 0] * (2 - axis)
            force = force + torch.nn.functional.pad(f, pad + [0, 1]) - torch.nn.functional.pad(f, pad + [1, 0])
        return force

    def substep(self):
        acc = self.springs(self.x) + self.gravity + self.wind - self.drag * self.v
        self.v.add_(acc * self.free, alpha=self.dt)
        torch.add(self.x, self.v, alpha=self.dt, out=self.x_next)
        self.x, self.x_next = self.x_next, self.x

    def energy(self):
        return 0.5 * self.v.square().sum() + 9.8 * self.x[..., 2].sum()


class Simulator:
    def __init__(self, cloth):
        self.cloth = cloth
        stream = torch.cuda.Stream(cloth.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            cloth.substep()
            cloth.substep()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            cloth.substep()

    def frame(self, k):
        speed = 1.5 * math.sin(0.4 * k)
        self.cloth.dt = 1 / 480 if abs(speed) > 1 else 1 / 240
        self.cloth.wind = torch.full((3,), speed, device=self.cloth.device)
        for _ in range(4):
            self.graph.replay()
        return self.cloth.x


def main(device="cuda"):
    sim = Simulator(Cloth(6, torch.device(device)))
    frames, log = [], []
    for k in range(8):
        frames.append(sim.frame(k))
        log.append(sim.cloth.energy())
    clip = torch.stack(frames)
    print(clip.shape, (clip[1:] - clip[:-1]).abs().max().item())
    print(torch.stack(log).tolist())


if __name__ == "__main__":
    main()
