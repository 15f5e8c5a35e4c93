"""A projection step of a fluid solver: the loop adapts the Python number of Jacobi iterations to the last residual."""
import torch

import graphsafe


class Projection:
    __slots__ = ("iterations", "pressure", "residual", "tolerance")

    def __init__(self, device, size=8):
        self.pressure = torch.zeros(size, size, device=device)
        self.residual = torch.zeros((), device=device)
        self.iterations = 4
        self.tolerance = 1.0

    def defect(self, source):
        p = torch.nn.functional.pad(self.pressure, (1, 1, 1, 1))
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return source - (4.0 * self.pressure - around)

    def solve(self, source):
        for _ in range(self.iterations):
            defect = self.defect(source)
            self.pressure.add_(
                defect, alpha=0.22
            )
        self.residual.copy_(self.defect(source).norm())
        return self.pressure.clone(), self.residual.clone()

    def adapt(self):
        if self.residual.item() > self.tolerance:
            self.iterations = min(self.iterations + 4, 32)


def build(device):
    projection = Projection(device)
    x = torch.linspace(0, 6.28, 8)

    def refresh(args, kwargs, k):
        strength = 0.2 if k < 24 else 2.0
        args[0].copy_(strength * torch.outer(torch.sin(x + 0.1 * k), torch.cos(x)))
        projection.adapt()

    return graphsafe.Step(projection.solve, (torch.zeros(8, 8, device=device),), refresh=refresh)
