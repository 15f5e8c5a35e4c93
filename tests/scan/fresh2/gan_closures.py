"""Adversarial training where both half-steps are closures captured into graphs."""
import torch
import torch.nn.functional as F
from torch import nn


def mlp(*sizes):
    mods = []
    for a, b in zip(sizes, sizes[1:]):
        mods += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*mods[:-1])


class Momentum:
    def __init__(self, params, lr, mu=0.5):
        self.params = list(params)
        self.lr, self.mu = lr, mu
        self.velocity = {}

    @torch.no_grad()
    def step(self, grads):
        for p, g in zip(self.params, grads):
            if p not in self.velocity:
                self.velocity[p] = torch.zeros_like(p)
            v = self.velocity[p].mul_(self.mu).add_(g)
            p.sub_(self.lr * v)


def make_steps(gen, disc, real, latent, lr):
    opt_g, opt_d = Momentum(gen.parameters(), lr), Momentum(disc.parameters(), lr)
    n = real.shape[0]

    def disc_step():
        with torch.no_grad():
            fake = gen(torch.randn(n, latent, device=real.device))
        loss = F.softplus(-disc(real)).mean() + F.softplus(disc(fake)).mean()
        opt_d.step(torch.autograd.grad(loss, opt_d.params))
        return loss.detach()

    def gen_step():
        fake = gen(torch.randn(n, latent, device=real.device))
        loss = F.softplus(-disc(fake)).mean()
        opt_g.step(torch.autograd.grad(loss, opt_g.params))
        return loss.detach()

    return disc_step, gen_step


def graphed(fn, stream):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = fn()

    def call():
        graph.replay()
        return out

    return call


class Stopwatch:
    def __init__(self):
        self.begin = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)
        self.total = 0.0

    def __enter__(self):
        self.begin.record()
        return self

    def __exit__(self, *exc):
        self.end.record()
        self.end.synchronize()
        self.total += self.begin.elapsed_time(self.end)
        return False


def train(data, steps, device, latent=16, batch=128):
    gen, disc = mlp(latent, 64, data.shape[1]).to(device), mlp(data.shape[1], 64, 1).to(device)
    data = data.to(device)
    real = torch.empty(batch, data.shape[1], device=device)
    stream = torch.cuda.Stream(device)
    d, g = (graphed(fn, stream) for fn in make_steps(gen, disc, real, latent, 1e-2))
    watch = Stopwatch()
    for _ in range(steps):
        with watch:
            torch.index_select(data, 0, torch.randint(0, len(data), (batch,), device=device), out=real)
            d()
            g()
    return gen, watch.total / steps
