import torch
import torch.nn.functional as F
from torch import nn


def small(r, tol): return r.dot(r).sqrt().item() < tol


def build_conjugate_gradient(device):
    torch.manual_seed(61)
    n = 24
    a = torch.randn(n, n, device=device) * 0.2
    matrix = a @ a.t() + torch.eye(n, device=device)

    def step(b, *, tol=1e-2, most=5):
        x = torch.zeros_like(b)
        r = b - matrix @ x
        p = r
        rr = r.dot(r)
        for _ in range(most):
            ap = matrix @ p
            alpha = rr / p.dot(ap)
            x = x + alpha * p
            r = r - alpha * ap
            if small(r, tol):
                return x, r
            new = r.dot(r)
            p = r + (new / rr) * p
            rr = new
        return x, r

    return step, (torch.randn(n, device=device),), {"tol": 1e-2, "most": 5}


def build_newton_implicit(device):
    torch.manual_seed(62)
    n = 10
    w = torch.randn(n, n, device=device) * 0.3
    bias = torch.randn(n, device=device) * 0.1
    eye = torch.eye(n, device=device)
    dt = 0.2

    def field(y):
        return torch.tanh(y @ w.t() + bias) - 0.5 * y

    def jacobian(y):
        s = 1 - torch.tanh(y @ w.t() + bias).pow(2)
        return s[:, None] * w - 0.5 * eye

    class Implicit:
        def refine(self, start, y):
            residual = y - start - dt * field(y)
            system = eye - dt * jacobian(y)
            return y - torch.linalg.solve(system, residual)

        def __call__(self, start):
            y = start + dt * field(start)
            for _ in range(2):
                y = self.refine(start, y)
            drift = (y - start - dt * field(y)).abs().max()
            return y, drift, y - start

    return Implicit(), (torch.randn(n, device=device),)


def build_armijo_descent(device):
    torch.manual_seed(63)
    data = torch.randn(32, 8, device=device)
    labels = (torch.randn(32, device=device) > 0).float()
    momentum = torch.zeros(8, device=device)

    def value(w):
        z = data @ w
        return F.binary_cross_entropy_with_logits(z, labels) + 0.01 * w.dot(w)

    def gradient(w):
        z = data @ w
        return data.t() @ (z.sigmoid() - labels) / 32 + 0.02 * w

    def step(w, first=16.0):
        g = gradient(w)
        momentum.mul_(0.5).add_(g)
        direction = g + 0.1 * momentum
        base = value(w)
        slope = 0.3 * g.dot(direction)
        t = first
        trial = lambda s: float(value(w - s * direction) - base + s * slope)
        while t > 1e-2 and trial(t) > 0:
            t *= 0.5
        moved = w - t * direction
        w.copy_(moved)
        after = value(moved)
        fit = ((data @ moved > 0).float() == labels).float().mean()
        spread = (data @ moved).std()
        return t, {"before": base, "after": after, "fit": fit, "spread": spread}

    return step, (torch.randn(8, device=device),)


def build_power_deflation(device):
    torch.manual_seed(64)
    n = 12
    q = torch.randn(n, n, device=device)
    base = q @ q.t() / n

    def dominant(a, v):
        for _ in range(4):
            w = a @ v
            w = w / w.norm()
            if torch.allclose(w, v, atol=2e-1):
                return w
            v = w
        return v

    def step(x, v):
        scale = torch.sigmoid(x)
        a = base * scale[:, None] * scale[None]
        first = dominant(a, v)
        lam = first @ (a @ first)
        rest = a - lam * torch.outer(first, first)
        projected = x - first * (first @ x)
        energy = (rest @ projected).pow(2).sum().sqrt()
        whitened = projected / (energy + 1e-4)
        return lam, whitened, rest.diagonal().sum()

    v = F.normalize(torch.ones(n, device=device), dim=0)
    return step, (torch.randn(n, device=device), v)


def build_gp_posterior(device):
    torch.manual_seed(65)
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
    noise = 0.1

    def kernel(a, b):
        d = a.pow(2).sum(-1)[:, None] + b.pow(2).sum(-1)[None] - 2 * a @ b.t()
        return torch.exp(-0.5 * d.clamp_min(0))

    @torch.no_grad()
    def posterior(train, targets, query):
        zt, zq = net(train), net(query)
        gram = kernel(zt, zt)
        gram = gram + noise * torch.eye(gram.shape[0], device=gram.device)
        cross = kernel(zt, zq)
        factor = torch.linalg.cholesky(gram)
        half = torch.linalg.solve_triangular(factor, cross, upper=False)
        white = torch.linalg.solve_triangular(factor, targets[:, None], upper=False)
        mean = (half.t() @ white).squeeze(1)
        var = 1.0 - half.pow(2).sum(0)
        evidence = -0.5 * white.pow(2).sum() - factor.diagonal().log().sum()
        return mean, var.clamp_min(1e-6).sqrt(), evidence

    def step(train, targets, query, kappa=2.0):
        mean, std, evidence = posterior(train, targets - targets.mean(), query)
        bound = mean + kappa * std
        best = bound.argmax()
        return query.gather(0, best.expand(1, query.shape[1])), bound, evidence

    train = torch.randn(14, 4, device=device)
    return step, (train, torch.randn(14, device=device), torch.randn(9, 4, device=device))
