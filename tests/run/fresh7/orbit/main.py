"""Integrates a small cluster of bodies with leapfrog; ten substeps are one unit."""
import torch

BODIES, SUBSTEPS, FRAMES, DT = 24, 10, 120, 1e-3


class Cluster:
    def __init__(self, device):
        self.mass = torch.rand(BODIES).to(device) + 0.2
        self.pos = torch.randn(BODIES, 3).to(device)
        self.vel = (torch.randn(BODIES, 3) * 0.1).to(device)

    def pull(self):
        gap = self.pos[None] - self.pos[:, None]
        near = (gap.square().sum(-1) + 0.05).pow(-1.5)
        return (gap * (near * self.mass[None])[..., None]).sum(1)

    def advance(self):
        self.vel.add_(self.pull(), alpha=DT / 2)
        self.pos.add_(self.vel, alpha=DT)
        self.vel.add_(self.pull(), alpha=DT / 2)

    def unit(self):
        for _ in range(SUBSTEPS):
            self.advance()


class Recorder:
    def __init__(self, cluster):
        self.cluster = cluster
        self.path = cluster.pos[None].clone()

    def keep(self):
        self.path = torch.cat([self.path, self.cluster.pos[None]])

    def length(self):
        return (self.path[1:] - self.path[:-1]).norm(dim=-1).sum()


def prepare(cluster):
    start = cluster.pos.clone(), cluster.vel.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            cluster.unit()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cluster.unit()
    cluster.pos.copy_(start[0])
    cluster.vel.copy_(start[1])
    return graph


@torch.no_grad()
def main():
    torch.manual_seed(13)
    device = torch.device("cuda")
    cluster = Cluster(device)
    graph = prepare(cluster)
    recorder = Recorder(cluster)
    for _ in range(FRAMES):
        graph.replay()
        recorder.keep()
    print(f"frames {FRAMES} length {recorder.length().item():.4f}")


if __name__ == "__main__":
    main()
