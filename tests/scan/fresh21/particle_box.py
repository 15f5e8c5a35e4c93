import torch


class ParticleBox:
    def __init__(self, device, n=64):
        self.pos = torch.rand(n, 2, device=device)
        self.vel = torch.randn(n, 2, device=device) * 0.1
        self.force = torch.zeros(n, 2, device=device)
        self.dt = 0.01
        self.graph = None

    def _kick(self):
        delta = self.pos[:, None] - self.pos[None]
        r2 = delta.square().sum(-1, keepdim=True) + 0.05
        self.force.copy_((delta / r2).sum(1))
        self.vel.add_(self.force * self.dt)
        self.pos.add_(self.vel * self.dt)

    def record(self):
        saved = self.pos.clone(), self.vel.clone()
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            self._kick()
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._kick()
        self.pos.copy_(saved[0])
        self.vel.copy_(saved[1])

    def wrap(self):
        self.pos = self.pos.remainder(1.0)

    def energy(self):
        return 0.5 * self.vel.square().sum()

    def run(self, steps):
        trace = []
        for k in range(steps):
            self.graph.replay()
            self.wrap()
            e = self.energy()
            if e > 50.0:
                self.dt = self.dt * 0.5
            trace.append(e)
        return torch.stack(trace)


def main(device="cuda"):
    box = ParticleBox(device)
    box.record()
    print(box.run(6))


if __name__ == "__main__":
    main()
