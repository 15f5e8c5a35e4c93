"""Gaussian-process posterior used as the surrogate of a Bayesian optimiser."""
from dataclasses import dataclass

import torch


@dataclass
class Kernel:
    length: float = 0.7
    scale: float = 1.3

    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        sq = (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1)
        return self.scale * torch.exp(-0.5 * sq / self.length**2)


class Surrogate:
    def __init__(self, kernel: Kernel, noise: float, jitter_steps: int = 3):
        self.kernel, self.noise, self.jitter_steps = kernel, noise, jitter_steps

    def factor(self, gram: torch.Tensor) -> torch.Tensor:
        eye = torch.eye(gram.shape[0], device=gram.device, dtype=gram.dtype)
        return torch.linalg.cholesky(gram + self.noise * eye)

    def __call__(self, x, y, candidates):
        root = self.factor(self.kernel(x, x))
        cross = self.kernel(x, candidates)
        half = torch.linalg.solve_triangular(root, cross, upper=False)
        target = torch.linalg.solve_triangular(root, y.unsqueeze(-1), upper=False)
        mean = (half.t() @ target).squeeze(-1)
        var = (self.kernel.scale - half.square().sum(0)).clamp(min=1e-6)
        return mean, var


class UpperConfidence:
    """Acquisition: optimistic value, zero where a candidate is out of bounds."""

    def __init__(self, surrogate: Surrogate, beta: float, bounds):
        self.surrogate, self.beta, self.bounds = surrogate, beta, bounds

    def __call__(self, x, y, candidates):
        mean, var = self.surrogate(x, y, candidates)
        low = candidates.new_tensor(self.bounds[0])
        high = candidates.new_tensor(self.bounds[1])
        inside = ((candidates >= low) & (candidates <= high)).all(-1)
        return torch.where(inside, mean + self.beta * var.sqrt(), torch.zeros_like(mean))


def build(device):
    torch.manual_seed(30)
    x = torch.randn(20, 3, device=device)
    y = torch.randn(20, device=device)
    candidates = torch.randn(50, 3, device=device)
    bounds = ([-2.0, -2.0, -2.0], [2.0, 2.0, 2.0])
    return UpperConfidence(Surrogate(Kernel(), noise=0.05), 1.5, bounds), (x, y, candidates)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args).argmax())
