"""Waves on a membrane with two fields that take turns."""
import torch

SIZE, STEPS, C = 32, 151, 0.2


def laplace(u):
    return (
        torch.roll(u, 1, 0) + torch.roll(u, -1, 0) + torch.roll(u, 1, 1) + torch.roll(u, -1, 1) - 4 * u
    )


class Membrane:
    def __init__(self, start):
        self.now = start.clone()
        self.old = start.clone()
        self.damp = torch.full_like(start, 0.999)
        self.graphs = []
        self.turn = 0

    def body(self):
        """The new field is written over the old one."""
        self.old.mul_(-1).add_(self.now, alpha=2).add_(C * laplace(self.now)).mul_(self.damp)

    def swap(self):
        self.now, self.old = self.old, self.now

    def record(self):
        keep = self.now.clone(), self.old.clone()
        side = torch.cuda.Stream()
        for _ in range(2):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.body()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.body()
            self.graphs.append(graph)
            self.swap()
        self.now.copy_(keep[0])
        self.old.copy_(keep[1])

    def step(self):
        self.graphs[self.turn].replay()
        self.turn = 1 - self.turn
        self.swap()
        return self.now


@torch.no_grad()
def main():
    torch.manual_seed(22)
    device = torch.device("cuda")
    axis = torch.linspace(-2, 2, SIZE).to(device)
    membrane = Membrane(torch.exp(-3 * (axis[:, None] ** 2 + axis[None, :] ** 2)))
    membrane.record()
    energy = torch.zeros((), device=device)
    for _ in range(STEPS):
        energy.add_(membrane.step().square().mean())
    print(f"steps {STEPS} energy {energy.item():.5f}")


if __name__ == "__main__":
    main()
