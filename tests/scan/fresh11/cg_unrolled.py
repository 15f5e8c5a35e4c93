"""Conjugate gradients with a fixed number of iterations; converged systems are held still by a mask."""
from __future__ import annotations

import torch


class Laplacian:
    def __init__(self, n: int, shift: float):
        self.n, self.shift = n, shift

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out = (2.0 + self.shift) * x
        out[..., 1:] -= x[..., :-1]
        out[..., :-1] -= x[..., 1:]
        return out


def dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum(-1, keepdim=True)


class BatchedCG:
    def __init__(self, operator: Laplacian, iterations: int, tolerance: float, verbose: int = 0):
        self.operator = operator
        self.iterations = iterations
        self.tolerance = tolerance
        self.verbose = verbose

    def report(self, i: int, energy: torch.Tensor) -> None:
        print(f"iteration {i}: {energy.max().item():.3e}")

    def __call__(self, b: torch.Tensor):
        x = torch.zeros_like(b)
        r = b.clone()
        p = r.clone()
        energy = dot(r, r)
        start = energy.clone()
        used = torch.zeros_like(energy)
        for i in range(self.iterations):
            ap = self.operator(p)
            active = (energy > self.tolerance * start).to(b.dtype)
            alpha = active * energy / dot(p, ap).clamp(min=1e-12)
            x += alpha * p
            r -= alpha * ap
            fresh = dot(r, r)
            p = torch.where(active > 0, r + fresh / energy.clamp(min=1e-12) * p, p)
            energy = fresh
            used += active
            if self.verbose >= 2:
                self.report(i, energy)
            if i + 1 == self.iterations:
                break
        return x, used.squeeze(-1)


def build(device):
    torch.manual_seed(58)
    solver = BatchedCG(Laplacian(32, shift=0.5), iterations=12, tolerance=1e-3)
    return solver, (torch.randn(6, 32, device=device),)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    solution, used = fn(*args)
    print(used)
