"""Loops that look at the device between two steps and decide: full caches, finished batches, losses, displacements, KL."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

D, B = 8, 2


class Cache:
    """A cache whose position is on the device; the loop looks whether it is full."""

    def __init__(self, device, room=64):
        self.device = device
        self.layer = nn.Linear(D, 3 * D).to(device).requires_grad_(False)
        self.k = torch.zeros(room, D, device=device)
        self.v = torch.zeros(room, D, device=device)
        self.pos = torch.zeros(1, dtype=torch.long, device=device)

    def step(self, x):
        q, k, v = self.layer(x).chunk(3, -1)
        self.k.index_copy_(0, self.pos, k)
        self.v.index_copy_(0, self.pos, v)
        keep = torch.arange(self.k.shape[0], device=x.device) <= self.pos
        scores = (q @ self.k.t()).masked_fill(~keep, float("-inf"))
        self.pos.add_(1)
        return scores.softmax(-1) @ self.v

    def grow(self):
        if self.pos.item() >= self.k.shape[0]:
            self.k = torch.cat([self.k, torch.zeros_like(self.k)])
            self.v = torch.cat([self.v, torch.zeros_like(self.v)])

    def wrap(self):
        if self.pos.item() >= self.k.shape[0]:
            half = self.k.shape[0] // 2  # the older half is dropped
            self.k[:half].copy_(self.k[half:].clone())
            self.v[:half].copy_(self.v[half:].clone())
            self.pos.fill_(half)


def cache_step(c, between, device):
    def refresh(args, kwargs, k):
        between()
        args[0].copy_(torch.randn(1, D))

    return graphsafe.Step(c.step, (torch.randn(1, D, device=device),), refresh=refresh)


def build_cache_grows(device):
    c = Cache(device)
    return cache_step(c, c.grow, device)


def build_cache_wraps(device):
    c = Cache(device)
    return cache_step(c, c.wrap, device)


class Classifier:
    """Trains on fixed data; when the loss is low enough, the training goes to the next level."""

    def __init__(self, device):
        torch.manual_seed(3)
        self.device = device
        self.model = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loss = torch.full((), 9.0, device=device)
        self.noise = 0.0
        self.level = torch.zeros((), device=device)
        g = torch.Generator().manual_seed(4)
        self.x = torch.randn(16, D, generator=g)
        self.y = (self.x[:, 0] > 0).long() + (self.x[:, 1] > 0).long()

    def learn(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())
        return self.loss.clone()

    def float_level(self, x, y):
        return self.learn(x + self.noise * torch.sin(7 * x), y)

    def tensor_level(self, x, y):
        return self.learn(x + self.level * torch.sin(7 * x), y)

    def inputs(self):
        return self.x.to(self.device), self.y.to(self.device)


def level_step(c, fn, raise_level):
    def refresh(args, kwargs, k):
        rows = torch.randperm(16)
        args[0].copy_(c.x[rows])
        args[1].copy_(c.y[rows])
        if k % 10 == 0 and c.loss.item() < 0.4:
            raise_level()

    return graphsafe.Step(fn, c.inputs(), refresh=refresh)


def build_level_float(device):
    c = Classifier(device)

    def up():
        c.noise = 0.5

    return level_step(c, c.float_level, up)


def build_level_tensor(device):
    c = Classifier(device)
    return level_step(c, c.tensor_level, lambda: c.level.fill_(0.5))


class Clock:
    """A simulation with its time on the device; the source is switched off after some time."""

    def __init__(self, device, n=24):
        self.u = torch.zeros(n, device=device)
        self.t = torch.zeros((), device=device)
        self.shape = torch.exp(-torch.linspace(-2, 2, n) ** 2).to(device)
        self.strength = torch.ones((), device=device)
        self.on = True

    def diffuse(self):
        return 0.2 * (torch.roll(self.u, 1) + torch.roll(self.u, -1) - 2 * self.u)

    def host(self):
        self.u.add_(self.diffuse())
        if self.on:
            self.u.add_(self.shape * torch.sin(self.t), alpha=0.1)
        self.t.add_(0.05)
        return self.u.clone()

    def device(self):
        self.u.add_(self.diffuse())
        self.u.add_(self.shape * torch.sin(self.t) * self.strength, alpha=0.1)
        self.t.add_(0.05)
        return self.u.clone()


def build_clock_host(device):
    c = Clock(device)

    def refresh(args, kwargs, k):
        if c.t.item() > 4.0:
            c.on = False

    return graphsafe.Step(c.host, (), refresh=refresh)


def build_clock_device(device):
    c = Clock(device)

    def refresh(args, kwargs, k):
        if c.t.item() > 4.0:
            c.strength.fill_(0.0)

    return graphsafe.Step(c.device, (), refresh=refresh)


class Verlet:
    """A neighbour list with a skin: rebuilt when a particle has moved far enough."""

    def __init__(self, device, n=20, room=6):
        g = torch.Generator().manual_seed(9)
        self.x = torch.rand(n, 2, generator=g).to(device)
        self.v = ((torch.rand(n, 2, generator=g) - 0.5) * 0.3).to(device)
        self.room = room
        self.device = device
        self.near = self.search()
        self.built = self.x.clone()

    def search(self):
        d = (self.x[:, None] - self.x[None]).norm(dim=-1) + torch.eye(len(self.x), device=self.device) * 9
        return d.topk(self.room, largest=False).indices

    def step(self):
        delta = self.x[self.near] - self.x[:, None]
        force = (delta * (0.02 - 0.001 / ((delta**2).sum(-1, keepdim=True) + 0.01))).sum(1)
        self.v.add_(force, alpha=0.02)
        self.x.add_(self.v, alpha=0.02)
        return self.x.clone(), self.v.clone()

    def moved(self):
        return (self.x - self.built).norm(dim=-1).max().item() > 0.15


def build_skin_assigned(device):
    p = Verlet(device)

    def refresh(args, kwargs, k):
        if p.moved():
            p.near = p.search()
            p.built.copy_(p.x)

    return graphsafe.Step(p.step, (), refresh=refresh)


def build_skin_copied(device):
    p = Verlet(device)

    def refresh(args, kwargs, k):
        if p.moved():
            p.near.copy_(p.search())
            p.built.copy_(p.x)

    return graphsafe.Step(p.step, (), refresh=refresh)


class Rollout:
    """Generation for RL: when all rows have ended, the next prompts are taken."""

    def __init__(self, device, vocab=24):
        torch.manual_seed(2)
        self.emb = nn.Embedding(vocab, D).to(device).requires_grad_(False)
        self.cell = nn.GRUCell(D, D).to(device).requires_grad_(False)
        self.head = nn.Linear(D, vocab).to(device).requires_grad_(False)
        self.device = device
        self.h = torch.zeros(B, D, device=device)
        self.token = torch.ones(B, dtype=torch.long, device=device)
        self.done = torch.zeros(B, dtype=torch.bool, device=device)
        self.prefix = torch.randn(B, D, device=device)

    def step(self):
        h = self.cell(self.emb(self.token) + self.prefix, self.h)
        self.h.copy_(h)
        probs = self.head(h).softmax(-1)
        token = torch.multinomial(probs, 1).squeeze(1)
        self.done.logical_or_(token == 0)
        self.token.copy_(torch.where(self.done, torch.zeros_like(token), token))
        return probs, self.token.clone()

    def restart(self):
        self.h.zero_()
        self.token.fill_(1)
        self.done.zero_()


def build_prompts_assigned(device):
    r = Rollout(device)

    def refresh(args, kwargs, k):
        if r.done.all().item():
            r.restart()
            r.prefix = torch.randn(B, D, device=device)

    return graphsafe.Step(r.step, (), refresh=refresh)


def build_prompts_copied(device):
    r = Rollout(device)

    def refresh(args, kwargs, k):
        if r.done.all().item():
            r.restart()
            r.prefix.copy_(torch.randn(B, D))

    return graphsafe.Step(r.step, (), refresh=refresh)


class Adaptive:
    """PPO with a learning rate that follows the KL divergence."""

    def __init__(self, device, lr):
        torch.manual_seed(6)
        self.policy = nn.Sequential(nn.Linear(D, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=lr, capturable=True)
        self.kl = torch.full((), 0.01, device=device)

    def step(self, obs, act, adv):
        with torch.no_grad():
            before = self.policy(obs).log_softmax(-1)
        self.optimizer.zero_grad(set_to_none=False)
        logp = self.policy(obs).log_softmax(-1)
        loss = -(logp.gather(1, act[:, None]).squeeze(1) * adv).mean()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            after = self.policy(obs).log_softmax(-1)
            self.kl.copy_((before.exp() * (before - after)).sum(-1).mean())
        return loss.detach()


def kl_step(a, device, change):
    def refresh(args, kwargs, k):
        if k % 8 == 7:
            kl = a.kl.item()
            if kl > 2e-5:
                change(1 / 1.5)
            elif kl < 5e-6:
                change(1.5)
        args[0].copy_(torch.randn(16, D))
        args[1].copy_(torch.randint(0, 3, (16,)))
        args[2].copy_(torch.randn(16))

    args = (
        torch.randn(16, D, device=device),
        torch.randint(0, 3, (16,), device=device),
        torch.randn(16, device=device),
    )
    return graphsafe.Step(a.step, args, refresh=refresh)


def build_kl_float(device):
    a = Adaptive(device, 1e-3)

    def change(factor):
        group = a.optimizer.param_groups[0]
        group["lr"] = min(1e-2, max(1e-5, group["lr"] * factor))

    return kl_step(a, device, change)


def build_kl_filled(device):
    a = Adaptive(device, torch.tensor(1e-3, device=device))
    return kl_step(a, device, lambda factor: a.optimizer.param_groups[0]["lr"].mul_(factor).clamp_(1e-5, 1e-2))


class Grown(Classifier):
    """When the loss stays low, the backbone is unfrozen."""


def build_unfreeze_loss(device):
    c = Grown(device)
    c.model[0].requires_grad_(False)

    def refresh(args, kwargs, k):
        rows = torch.randperm(16)
        args[0].copy_(c.x[rows])
        args[1].copy_(c.y[rows])
        if c.loss.item() < 0.6:
            c.model[0].requires_grad_(True)

    return graphsafe.Step(c.learn, c.inputs(), refresh=refresh)


def build_multistep_adam(device):
    c = Classifier(device)
    c.optimizer = torch.optim.AdamW(c.model.parameters(), lr=torch.tensor(1e-3, device=device), capturable=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(c.optimizer, [30, 60])

    def refresh(args, kwargs, k):
        rows = torch.randperm(16)
        args[0].copy_(c.x[rows])
        args[1].copy_(c.y[rows])
        if k and k % 20 == 0:
            scheduler.step()

    return graphsafe.Step(c.learn, c.inputs(), refresh=refresh)
