"""Steps of pytorch-minimize: inner problems that are solved within a step."""

import torch
from torch import nn


def minimised(method, convex=False, size=5, **options):
    """Rosenbrock's function, or one that is convex, from a new start, as an inner problem."""

    def build(device):
        from torchmin import minimize

        def cost(x):
            if convex:
                return (torch.arange(1, size + 1, device=x.device) * (x - 0.3).cosh()).sum() + x.sum().square()
            return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

        def step(x):
            result = minimize(cost, x, method=method, max_iter=8, **options)
            return result.x, result.fun

        torch.manual_seed(1)
        return step, (torch.rand(size, device=device, dtype=torch.float64) + 0.4,)

    return build


quasi_newton = minimised("bfgs")
limited_memory = minimised("l-bfgs")
conjugate_gradients = minimised("cg")
newton_gradients = minimised("newton-cg")
newton_exactly = minimised("newton-exact")
trusted_gradients = minimised("trust-ncg")
trusted_krylov = minimised("trust-krylov", convex=True, size=30)
trusted_exactly = minimised("trust-exact")
dogleg = minimised("dogleg", convex=True)


def constrained_fit(device):
    """Nonlinear least squares."""
    from torchmin import least_squares

    t = torch.linspace(0, 1, 20, device=device)
    y = 2 * torch.exp(-1.5 * t)

    def step(x):
        return least_squares(lambda p: p[0] * torch.exp(-p[1] * t) - y, x, max_nfev=5).x

    return step, (torch.tensor([1.0, 1.0], device=device),)


def minimising_training(device):
    """A model trained on all data by an optimizer that minimises."""
    from torchmin import Minimizer

    model = nn.Linear(6, 1).to(device)
    optimizer = Minimizer(model.parameters(), method="bfgs", max_iter=4)

    def step(x, y):
        def closure():
            optimizer.zero_grad()
            return (model(x) - y).square().mean()

        return optimizer.step(closure)

    return step, (torch.randn(32, 6, device=device), torch.randn(32, 1, device=device))
