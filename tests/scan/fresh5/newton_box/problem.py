import torch


class RosenbrockChain:
    """Gradient and Hessian of the chained Rosenbrock function, in closed form."""

    def __init__(self, size: int, device, weight: float = 10.0):
        self.size = size
        self.weight = weight
        self.device = device
        self.identity = torch.eye(size, device=device)

    def start(self) -> torch.Tensor:
        return torch.linspace(-1.2, 1.0, self.size, device=self.device)

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x[:-1], x[1:]
        gap = b - a.square()
        g = torch.zeros_like(x)
        g[:-1].add_(-4.0 * self.weight * a * gap - 2.0 * (1.0 - a))
        g[1:].add_(2.0 * self.weight * gap)
        return g

    def hessian(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x[:-1], x[1:]
        main = torch.zeros_like(x)
        main[:-1].add_(12.0 * self.weight * a.square() - 4.0 * self.weight * b + 2.0)
        main[1:].add_(2.0 * self.weight)
        off = -4.0 * self.weight * a
        return torch.diag(main) + torch.diag(off, 1) + torch.diag(off, -1)
