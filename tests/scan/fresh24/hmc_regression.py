"""Hamiltonian Monte Carlo for a hierarchical regression; a whole trajectory is one CUDA graph."""
from dataclasses import dataclass

import torch


@dataclass
class Data:
    x: torch.Tensor
    y: torch.Tensor
    group: torch.Tensor
    groups: int


class Hierarchical:
    """y ~ N(a[group] + x b, s); a ~ N(mu, t). Parameters in one row: a, b, mu, log t, log s."""

    def __init__(self, data):
        self.data = data
        self.size = data.groups + 4

    def unpack(self, q):
        a = q[:, : self.data.groups]
        b, mu, log_t, log_s = q[:, self.data.groups :].unbind(1)
        return a, b, mu, log_t, log_s

    def potential(self, q):
        a, b, mu, log_t, log_s = self.unpack(q)
        mean = a[:, self.data.group] + b[:, None] * self.data.x
        fit = 0.5 * ((self.data.y - mean) / log_s.exp()[:, None]).square().sum(1)
        fit = fit + self.data.y.shape[0] * log_s
        levels = 0.5 * ((a - mu[:, None]) / log_t.exp()[:, None]).square().sum(1)
        levels = levels + self.data.groups * log_t
        prior = 0.5 * (b.square() + mu.square() / 25 + log_t.square() + log_s.square())
        return fit + levels + prior

    def gradient(self, q):
        with torch.enable_grad():
            q = q.detach().requires_grad_(True)
            u = self.potential(q)
            return torch.autograd.grad(u.sum(), q)[0], u.detach()


class DualAveraging:
    """Step size adaptation whose numbers are all tensors."""

    def __init__(self, initial, goal, device):
        self.goal = goal
        self.log_step = torch.full((), initial, device=device).log_()
        self.anchor = self.log_step + 2.3
        self.average = self.log_step.clone()
        self.error = torch.zeros((), device=device)
        self.count = torch.zeros((), device=device)

    def adapt(self, accept):
        self.count.add_(1)
        rate = 1 / (self.count + 10)
        self.error.add_(rate * (self.goal - accept - self.error))
        self.log_step.copy_(self.anchor - self.count.sqrt() / 0.05 * self.error)
        weight = self.count.pow(-0.75)
        self.average.add_(weight * (self.log_step - self.average))

    def freeze(self):
        self.log_step.copy_(self.average)


class Chains:
    def __init__(self, target, count, device):
        self.target = target
        self.q = 0.1 * torch.randn(count, target.size, device=device)
        self.step = DualAveraging(0.02, 0.8, device)
        self.accept = torch.zeros((), device=device)

    def trajectory(self, leaps):
        eps = self.step.log_step.exp()
        p = torch.randn_like(self.q)
        q = self.q.clone()
        grad, u0 = self.target.gradient(q)
        h0 = u0 + 0.5 * p.square().sum(1)
        for _ in range(leaps):
            p = p - 0.5 * eps * grad
            q = q + eps * p
            grad, u = self.target.gradient(q)
            p = p - 0.5 * eps * grad
        h1 = u + 0.5 * p.square().sum(1)
        chance = torch.nan_to_num((h0 - h1).exp().clamp_max(1.0), nan=0.0)
        take = torch.rand_like(chance) < chance
        self.q.copy_(torch.where(take[:, None], q, self.q))
        self.accept.copy_(chance.mean())


class Sampler:
    def __init__(self, chains, leaps, device):
        self.chains, self.leaps, self.device = chains, leaps, device
        self.graphs = {}

    def _record(self, adapting):
        def body():
            self.chains.trajectory(self.leaps)
            if adapting:
                self.chains.step.adapt(self.chains.accept)

        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            body()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            body()
        return graph

    def prepare(self):
        for adapting in (True, False):
            self.graphs[adapting] = self._record(adapting)

    def run(self, warmup, draws):
        for _ in range(warmup):
            self.graphs[True].replay()
        self.chains.step.freeze()
        kept = torch.empty(draws, *self.chains.q.shape, device=self.device)
        for n in range(draws):
            self.graphs[False].replay()
            kept[n].copy_(self.chains.q)
        return kept


def synthetic(groups, rows, device):
    gen = torch.Generator().manual_seed(17)
    group = torch.randint(groups, (rows,), generator=gen)
    level = 1.0 + 0.7 * torch.randn(groups, generator=gen)
    x = torch.randn(rows, generator=gen)
    y = level[group] - 0.5 * x + 0.4 * torch.randn(rows, generator=gen)
    return Data(x.to(device), y.to(device), group.to(device), groups)


@torch.no_grad()
def main():
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    target = Hierarchical(synthetic(5, 120, device))
    sampler = Sampler(Chains(target, 8, device), leaps=6, device=device)
    sampler.prepare()
    draws = sampler.run(warmup=60, draws=60)
    mean, spread = draws.mean((0, 1)).tolist(), draws.std((0, 1)).tolist()
    for name, m, s in zip([*"abcde", "slope", "mu", "log t", "log s"], mean, spread):
        print(f"{name:6s} {m:+.3f} +- {s:.3f}")


if __name__ == "__main__":
    main()
