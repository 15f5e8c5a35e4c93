"""Linear solvers with pluggable operators and stopping rules."""
from dataclasses import dataclass

import torch


class Operator:
    def apply(self, v):
        raise NotImplementedError


class Laplace1d(Operator):
    def __init__(self, n, device):
        self.stiff = torch.full((n,), 2.5, device=device)

    def apply(self, v):
        out = self.stiff * v
        out[1:] -= v[:-1]
        out[:-1] -= v[1:]
        return out


@dataclass
class Residual:
    value: torch.Tensor
    tolerance: float

    def __bool__(self):
        return bool(self.value > self.tolerance)


class Stopping:
    def __init__(self, tolerance):
        self.tolerance = tolerance

    def residual(self, r):
        return Residual(r.norm(), self.tolerance)


class ConjugateGradient:
    def __init__(self, op, stopping, limit=50):
        self.op, self.stopping, self.limit = op, stopping, limit

    def solve(self, b):
        x = torch.zeros_like(b)
        r = b.clone()
        p = r.clone()
        rr = torch.dot(r, r)
        done = 0
        while done < self.limit and self.stopping.residual(r):
            ap = self.op.apply(p)
            alpha = rr / torch.dot(p, ap)
            x += alpha * p
            r -= alpha * ap
            new = torch.dot(r, r)
            p = r + (new / rr) * p
            rr, done = new, done + 1
        return x


class Stepper:
    """One implicit Euler step of the heat equation."""

    def __init__(self, n, device):
        self.state = torch.zeros(n, device=device)
        self.solver = ConjugateGradient(Laplace1d(n, device), Stopping(1e-5))

    def advance(self, source):
        self.state.copy_(self.solver.solve(self.state + source))
        return self.state.clone()


def build(device):
    return Stepper(24, device).advance, (torch.randn(24, device=device),)
