"""Training steps: value learning, policy updates, optimisers and averaging."""
import itertools
import math
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


def pinned(t, device):
    return t.pin_memory() if device.type == "cuda" else t


def mlp(device, n_in, n_out, seed, width=16):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(n_in, width), nn.Tanh(), nn.Linear(width, n_out)).to(device)


class QLearner:
    def __init__(self, device, every=4):
        self.online, self.target = mlp(device, 6, 3, 1), mlp(device, 6, 3, 1).requires_grad_(False)
        self.every, self.updates = every, 0

    def __call__(self, obs, reward, nxt):
        with torch.no_grad():
            goal = reward + 0.9 * self.target(nxt).amax(dim=-1)
        loss = F.mse_loss(self.online(obs).amax(dim=-1), goal)
        params = list(self.online.parameters())
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, g in zip(params, grads):
                p.sub_(g, alpha=0.05)
            self.updates += 1
            if self.updates % self.every == 0:
                for t, p in zip(self.target.parameters(), params):
                    t.lerp_(p, 0.5)
        return loss.detach(), goal


def build_q_learner(device):
    learner = QLearner(device)
    return learner, (torch.randn(8, 6, device=device), torch.rand(8, device=device), torch.randn(8, 6, device=device))


def build_cosine_sgd(device):
    model = mlp(device, 5, 2, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: 0.5 + 0.5 * math.cos(n * math.pi / 20))

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach(), model[2].weight.detach()

    return step, (torch.randn(8, 5, device=device), torch.randn(8, 2, device=device))


class AutoClip:
    def __init__(self, device, keep=6):
        self.model = mlp(device, 5, 1, 3)
        self.norms = deque([1.0], maxlen=keep)
        self.last = pinned(torch.ones(1), device)

    def __call__(self, x, y):
        self.norms.append(float(self.last))
        limit = sorted(self.norms)[len(self.norms) // 2] * 0.5
        params = list(self.model.parameters())
        loss = F.mse_loss(self.model(x), 3 * y)
        grads = torch.autograd.grad(loss, params)
        norm = torch.stack([g.norm() for g in grads]).norm()
        self.last.copy_(norm.view(1), non_blocking=True)
        factor = (limit / (norm + 1e-6)).clamp(max=1.0)
        clipped = torch.cat([(g * factor).flatten() for g in grads])
        with torch.no_grad():
            for p, g in zip(params, grads):
                p.sub_(g * factor, alpha=0.02)
        return loss.detach(), clipped


def build_auto_clip(device):
    return AutoClip(device), (torch.randn(8, 5, device=device), torch.randn(8, 1, device=device))


class PenaltyUpdate:
    def __init__(self, device):
        self.actor = mlp(device, 4, 3, 4)
        self.beta = 0.2
        self.kl_host = pinned(torch.full((), 0.02), device)

    def __call__(self, obs, old_logp, adv):
        seen = self.kl_host.item()
        if seen > 0.03:
            self.beta = min(self.beta * 1.5, 3.0)
        elif seen < 0.01:
            self.beta = max(self.beta / 1.5, 0.05)
        params = list(self.actor.parameters())
        logp = torch.log_softmax(self.actor(obs), dim=-1)
        kl = F.kl_div(logp, torch.log_softmax(old_logp, -1), log_target=True, reduction="batchmean")
        loss = -(logp.exp() * adv).mean() + self.beta * kl
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, g in zip(params, grads):
                p.sub_(g, alpha=0.1)
        self.kl_host.copy_(kl.detach(), non_blocking=True)
        return loss.detach(), kl.detach()


def build_kl_penalty(device):
    torch.manual_seed(40)
    data = [torch.randn(16, n, device=device) for n in (4, 3, 3)]
    return PenaltyUpdate(device), tuple(data)


def build_averaged_eval(device):
    live, slow = mlp(device, 6, 4, 5), mlp(device, 6, 4, 55)
    pairs = list(zip(live.parameters(), slow.parameters()))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 6, generator=torch.Generator().manual_seed(k)))
        if k % 3 == 2:
            for p, e in pairs:
                p.data, e.data = e.data, p.data

    @torch.no_grad()
    def step(x):
        return torch.softmax(live(x), dim=-1)

    return graphsafe.Step(step, (torch.randn(8, 6, device=device),), {}, refresh=refresh)


class Anneal:
    def __init__(self, start, floor, rate):
        self.values = (max(floor, start * math.exp(-rate * n)) for n in itertools.count())

    def __iter__(self):
        return self.values


def build_annealed_choice(device):
    policy = mlp(device, 6, 5, 6).requires_grad_(False)
    tau = iter(Anneal(2.0, 0.2, 0.02))

    def step(obs):
        u = torch.rand(obs.shape[0], 5, device=obs.device).clamp_(1e-6, 1 - 1e-6)
        gumbel = -torch.log(-torch.log(u))
        return torch.softmax((policy(obs) + gumbel) / next(tau), dim=-1)

    return step, (torch.randn(8, 6, device=device),)


class SignMomentum(torch.optim.Optimizer):
    def __init__(self, params, lr=0.002, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"], state["m"] = 0, torch.zeros_like(p)
                state["step"] += 1
                update = (state["m"] * group["beta"] + p.grad * (1 - group["beta"])) * 1e3
                p.sub_(torch.tanh(update), alpha=group["lr"])
                state["m"].lerp_(p.grad, 1 - group["beta"])


def build_sign_momentum(device):
    model = mlp(device, 5, 2, 7)
    opt = SignMomentum(model.parameters())

    def step(x, y):
        opt.zero_grad()
        loss = F.smooth_l1_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach(), model(x).detach()

    return step, (torch.randn(8, 5, device=device), torch.randn(8, 2, device=device))


class ScaledTrainer:
    def __init__(self, device):
        self.model, self.scale, self.good = mlp(device, 5, 2, 8), 256.0, 0
        self.overflow = pinned(torch.zeros(1), device)

    def __call__(self, x, y):
        if self.overflow[0] > 0:
            self.scale, self.good = max(self.scale / 2, 1.0), 0
        elif self.good >= 20:
            self.scale, self.good = min(self.scale * 2, 16384.0), 0
        self.good += 1
        params = list(self.model.parameters())
        loss = F.mse_loss(self.model(x), y)
        grads = [g / self.scale for g in torch.autograd.grad(loss * self.scale, params)]
        self.overflow.copy_((loss > 0.9).float().view(1).detach(), non_blocking=True)
        with torch.no_grad():
            for p, g in zip(params, grads):
                p.sub_(g, alpha=0.05)
        return loss.detach(), grads[0]


def build_scaled_trainer(device):
    torch.manual_seed(80)
    return ScaledTrainer(device), (torch.randn(8, 5, device=device), torch.randn(8, 2, device=device))


def build_exchange_and_return(device):
    live, slow = mlp(device, 6, 4, 9), mlp(device, 6, 4, 9).requires_grad_(False)
    pairs = list(zip(live.parameters(), slow.parameters()))

    def exchange():
        for p, e in pairs:
            kept = p.data
            p.data = e.data
            e.data = kept

    def step(x, y):
        grads = torch.autograd.grad(F.mse_loss(live(x), y), list(live.parameters()))
        with torch.no_grad():
            for (p, e), g in zip(pairs, grads):
                p.sub_(g, alpha=0.05)
                e.lerp_(p, 0.1)
            exchange()
            try:
                held_out = live(x)
            finally:
                exchange()
        return held_out, live(x).detach()

    return graphsafe.Step(step, (torch.randn(8, 6, device=device), torch.randn(8, 4, device=device)))


def build_nesterov(device):
    model = mlp(device, 5, 2, 10)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8, nesterov=True)

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, (torch.randn(8, 5, device=device), torch.randn(8, 2, device=device))
