"""Variational Monte Carlo of the helium atom: Metropolis walkers, Pade-Jastrow trial function."""
import torch


class TrialFunction:
    """psi = exp(-Z' (r1 + r2)) * exp(r12 / (2 (1 + beta r12)))."""

    def __init__(self, charge=2.0, eps=1e-4):
        self.charge, self.eps = charge, eps

    def radii(self, r):
        one = r[:, 0].norm(dim=-1).clamp_min(self.eps)
        two = r[:, 1].norm(dim=-1).clamp_min(self.eps)
        gap = (r[:, 0] - r[:, 1]).norm(dim=-1).clamp_min(self.eps)
        return one, two, gap

    def log_psi(self, r, params):
        z, beta = params.unbind()
        one, two, gap = self.radii(r)
        return -z * (one + two) + 0.5 * gap / (1.0 + beta * gap)

    def local_energy(self, r, params):
        z, beta = params.unbind()
        one, two, gap = self.radii(r)
        den = 1.0 + beta * gap
        slope = 0.5 / den.square()
        along = ((r[:, 0] / one[:, None] - r[:, 1] / two[:, None]) * (r[:, 0] - r[:, 1])).sum(-1) / gap
        kinetic = (
            -z.square() + z / one + z / two
            - slope.square() - 2.0 * slope / gap + beta / den.pow(3) + z * slope * along
        )
        return kinetic - self.charge / one - self.charge / two + 1.0 / gap


class Walkers:
    """Positions and their log-density live in fixed buffers; moves are accepted by selection."""

    def __init__(self, count, psi, device):
        self.psi = psi
        self.r = torch.randn(count, 2, 3, device=device)
        self.log_p = torch.zeros(count, device=device)
        self.width = torch.full((), 0.4, device=device)
        self.accepted = torch.zeros((), device=device)

    def refresh_density(self, params):
        self.log_p.copy_(2.0 * self.psi.log_psi(self.r, params))

    def sweep(self, params):
        trial = self.r + self.width * torch.randn_like(self.r)
        log_p = 2.0 * self.psi.log_psi(trial, params)
        u = torch.rand_like(log_p)
        take = u.log() < log_p - self.log_p
        self.r.copy_(torch.where(take[:, None, None], trial, self.r))
        self.log_p.copy_(torch.where(take, log_p, self.log_p))
        self.accepted.lerp_(take.float().mean(), 0.1)

    def tune(self, goal=0.5, gain=0.05):
        self.width.mul_(torch.exp(gain * (self.accepted - goal))).clamp_(0.05, 2.0)


class History:
    """A ring of the last energies, indexed by a count on the device."""

    def __init__(self, length, device):
        self.values = torch.zeros(length, device=device)
        self.count = torch.zeros(1, dtype=torch.int64, device=device)

    def add(self, value):
        self.values.index_copy_(0, self.count % self.values.shape[0], value.reshape(1))
        self.count.add_(1)

    def mean(self):
        filled = torch.arange(self.values.shape[0], device=self.values.device) < self.count
        return torch.where(filled, self.values, 0.0).sum() / filled.sum()


class Optimizer:
    """Robbins-Monro descent along the covariance of the energy and the log-derivative."""

    def __init__(self, params, rate):
        self.params, self.rate = params, rate
        self.updates = torch.zeros((), device=params.device)

    def descend(self, energy, slopes):
        centered = energy - energy.mean()
        grad = 2.0 * (centered.unsqueeze(-1) * slopes).mean(0)
        self.updates.add_(1.0)
        self.params.sub_(self.rate * torch.rsqrt(self.updates) * grad.clamp(-1.0, 1.0))
        self.params.clamp_(0.05, 4.0)


class VMC:
    def __init__(self, walkers, optimizer, history, sweeps):
        self.walkers, self.optimizer, self.history = walkers, optimizer, history
        self.sweeps = sweeps

    def slopes(self, r, params):
        beta = params[1]
        one, two, gap = self.walkers.psi.radii(r)
        return torch.stack([-(one + two), -0.5 * (gap / (1.0 + beta * gap)).square()], -1)

    @torch.no_grad()
    def __call__(self, clip):
        params = self.optimizer.params
        self.walkers.refresh_density(params)
        for _ in range(self.sweeps):
            self.walkers.sweep(params)
        self.walkers.tune()
        energy = self.walkers.psi.local_energy(self.walkers.r, params)
        middle = energy.median()
        energy = torch.minimum(torch.maximum(energy, middle - clip), middle + clip)
        self.optimizer.descend(energy, self.slopes(self.walkers.r, params))
        self.history.add(energy.mean())
        return self.history.mean(), energy.var(), self.walkers.accepted.clone()


def build(device):
    torch.manual_seed(2)
    psi = TrialFunction()
    walkers = Walkers(256, psi, device)
    params = torch.tensor([1.7, 0.4], device=device)
    vmc = VMC(walkers, Optimizer(params, 0.1), History(64, device), sweeps=4)
    return vmc, (torch.full((1,), 0.4, device=device),)
