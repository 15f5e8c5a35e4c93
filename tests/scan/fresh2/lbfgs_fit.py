"""Two-loop L-BFGS over a captured value-and-gradient evaluation."""
import collections

import torch


def make_objective(points, values):
    """Returns f(theta) for a radial basis expansion."""

    def objective(theta):
        centers, weights = theta[:, :2], theta[:, 2]
        d2 = (points.unsqueeze(1) - centers.unsqueeze(0)).square().sum(-1)
        return ((torch.exp(-d2) @ weights) - values).square().mean() + 1e-4 * theta.square().sum()

    return objective


class ValueAndGrad:
    def __init__(self, objective, shape, device):
        self.theta = torch.zeros(shape, device=device, requires_grad=True)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(3):
                torch.autograd.grad(objective(self.theta), self.theta)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self.value = objective(self.theta)
            (self.grad,) = torch.autograd.grad(self.value, self.theta)

    @torch.no_grad()
    def __call__(self, theta):
        self.theta.copy_(theta)
        self.graph.replay()
        return self.value, self.grad


class LBFGS:
    def __init__(self, evaluate, memory=8, c1=1e-4):
        self.evaluate = evaluate
        self.c1 = c1
        self.pairs = collections.deque(maxlen=memory)

    def direction(self, g):
        q = g.clone()
        alphas = []
        for s, y in reversed(self.pairs):
            rho = 1.0 / (s * y).sum()
            a = rho * (s * q).sum()
            alphas.append((a, rho))
            q = q - a * y
        if self.pairs:
            s, y = self.pairs[-1]
            q = q * ((s * y).sum() / (y * y).sum())
        for (s, y), (a, rho) in zip(self.pairs, reversed(alphas)):
            q = q + s * (a - rho * (y * q).sum())
        return -q

    def search(self, x, f, g, d):
        slope = float((g * d).sum())
        t = 1.0
        for _ in range(12):
            trial = x + t * d
            fn, gn = self.evaluate(trial)
            if fn <= f + self.c1 * t * slope:
                break
            t *= 0.5
        return trial, fn, gn

    def run(self, x, iterations):
        f, g = self.evaluate(x)
        f, g = f.detach().clone(), g.clone()
        for _ in range(iterations):
            d = self.direction(g)
            x_new, fn, gn = self.search(x, f, g, d)
            self.pairs.append((x_new - x, gn - g))
            x, f, g = x_new, fn.detach(), gn
        return x


def fit(device, n=1024, basis=32):
    points = torch.rand(n, 2, device=device)
    values = torch.sin(6 * points[:, 0]) * points[:, 1]
    evaluate = ValueAndGrad(make_objective(points, values), (basis, 3), device)
    return LBFGS(evaluate).run(0.1 * torch.randn(basis, 3, device=device), 50)
