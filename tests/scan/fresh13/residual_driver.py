"""Relaxes a potential with red-black sweeps in a graph until the residual is small, for several charge fields."""

from contextlib import contextmanager

import torch

SIDE = 48


@contextmanager
def recording(graph, warm):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            warm()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        yield


class Relaxation:
    def __init__(self, sweeps=20, omega=1.6):
        self.sweeps = sweeps
        self.omega = omega
        self.potential = torch.zeros(SIDE, SIDE, device="cuda")
        self.charge = torch.zeros(SIDE, SIDE, device="cuda")
        row = torch.arange(SIDE, device="cuda")
        inner = (row > 0) & (row < SIDE - 1)
        red = (row.unsqueeze(0) + row.unsqueeze(1)) % 2 == 0
        inside = inner.unsqueeze(0) & inner.unsqueeze(1)
        self.masks = (inside & red).float(), (inside & ~red).float()
        self.graph = torch.cuda.CUDAGraph()

    def gap(self):
        p = self.potential
        around = p.roll(1, 0) + p.roll(-1, 0) + p.roll(1, 1) + p.roll(-1, 1)
        return (around + self.charge) / 4 - p

    def sweep(self):
        for _ in range(self.sweeps):
            for mask in self.masks:
                self.potential.add_(self.gap() * mask, alpha=self.omega)
        return (self.gap() * (self.masks[0] + self.masks[1])).abs().amax()

    def prepare(self):
        with recording(self.graph, self.sweep):
            self.residual = self.sweep()
        self.potential.zero_()

    def load(self, charge):
        self.charge = charge.to(self.potential)
        self.potential.zero_()

    def solve(self, tolerance=1e-4, most=50):
        history = []
        for _ in range(most):
            self.graph.replay()
            torch.cuda.synchronize()
            history.append(self.residual)
            if self.residual < tolerance:
                break
        return self.potential.clone(), torch.stack(history)


def fields(count):
    for number in range(count):
        charge = torch.zeros(SIDE, SIDE, device="cuda")
        charge[8 + number : 12 + number, 10:14].fill_(1.0)
        charge[30:34, 30 - number : 34 - number].fill_(-1.0)
        yield charge


def main():
    relaxation = Relaxation()
    relaxation.prepare()
    solved = []
    for charge in fields(5):
        relaxation.load(charge)
        solved.append(relaxation.solve())
    torch.save(solved, "potentials.pt")


if __name__ == "__main__":
    main()
