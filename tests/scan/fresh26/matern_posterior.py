"""Streaming Gaussian-process posterior for sensor fields.

Observations arrive in a ring of fixed capacity. The posterior mean on a query set is found with a fixed number of
preconditioned conjugate-gradient iterations, warm-started from the last solution; the noise level adapts to the
residuals of the fit.
"""
import torch


class Matern52:
    def __init__(self, dims, device):
        self.log_length = torch.full((dims,), -0.3, device=device)
        self.log_amp = torch.zeros((), device=device)

    def __call__(self, a, b):
        a = a / self.log_length.exp()
        b = b / self.log_length.exp()
        sq = (a.unsqueeze(-2) - b.unsqueeze(-3)).square().sum(-1)
        r = (5.0 * sq + 1e-9).sqrt()
        return self.log_amp.exp() * (1.0 + r + r.square() / 3.0) * torch.exp(-r)


class ObservationRing:
    def __init__(self, capacity, dims, device):
        self.capacity = capacity
        self.sites = torch.zeros(capacity, dims, device=device)
        self.values = torch.zeros(capacity, device=device)
        self.live = torch.zeros(capacity, device=device)
        self.cursor = torch.zeros((), dtype=torch.long, device=device)
        self._lane = torch.arange(capacity, device=device)

    def push(self, sites, values):
        slots = (self.cursor + self._lane[: values.shape[0]]) % self.capacity
        self.sites.index_copy_(0, slots, sites)
        self.values.index_copy_(0, slots, values)
        self.live.index_fill_(0, slots, 1.0)
        self.cursor.add_(values.shape[0]).remainder_(self.capacity)


class PosteriorTracker:
    def __init__(self, kernel, ring, iterations=8, device=None):
        self.kernel = kernel
        self.ring = ring
        self.iterations = iterations
        self.alpha = torch.zeros(ring.capacity, device=device)
        self.noise = torch.full((), 0.1, device=device)
        self.age = torch.zeros((), device=device)

    def _system(self):
        gram = self.kernel(self.ring.sites, self.ring.sites)
        gram = gram * self.ring.live[:, None] * self.ring.live[None, :]
        return gram + torch.diag_embed(self.noise + 1.0 - self.ring.live)

    def _solve(self, matrix, rhs):
        x = self.alpha * self.ring.live
        inv_diag = matrix.diagonal().reciprocal()
        r = rhs - matrix @ x
        z = inv_diag * r
        p = z
        rz = torch.dot(r, z)
        for _ in range(self.iterations):
            mp = matrix @ p
            step = rz / torch.dot(p, mp).clamp_min(1e-12)
            x = x + step * p
            r = r - step * mp
            z = inv_diag * r
            new = torch.dot(r, z)
            p = z + (new / rz.clamp_min(1e-12)) * p
            rz = new
        return x, r

    def observe(self, sites, values, queries):
        self.ring.push(sites, values)
        matrix = self._system()
        solution, residual = self._solve(matrix, self.ring.values * self.ring.live)
        self.alpha.copy_(solution)
        self.age.add_(1.0)
        rate = 0.5 / (1.0 + self.age)
        spread = residual.square().sum() / self.ring.live.sum().clamp_min(1.0)
        self.noise.mul_(1.0 - rate).add_(rate * (spread + 0.05))
        cross = self.kernel(queries, self.ring.sites) * self.ring.live
        prior = self.kernel.log_amp.exp()
        gain = (cross.square() / (matrix.diagonal() + self.noise)).sum(-1)
        return cross @ solution, (prior - gain).clamp_min(0.0)


def build(device):
    gen = torch.Generator().manual_seed(29)
    dims, arrivals = 2, 4
    ring = ObservationRing(24, dims, device)
    tracker = PosteriorTracker(Matern52(dims, device), ring, device=device)
    sites = torch.rand(arrivals, dims, generator=gen).to(device)
    values = torch.sin(3.0 * sites.sum(-1))
    queries = torch.rand(5, dims, generator=gen).to(device)
    return tracker.observe, (sites, values, queries)
