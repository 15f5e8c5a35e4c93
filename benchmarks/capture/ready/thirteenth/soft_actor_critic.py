"""One update of soft actor-critic: noise by rsample, two critics, a learned temperature, targets by foreach in place."""
import math

import torch
import torch.nn as nn

import graphsafe

OBS, ACT = 10, 3


def mlp(n, m):
    return nn.Sequential(nn.Linear(n, 48), nn.ReLU(), nn.Linear(48, m))


class Agent:
    def __init__(self, device):
        on_gpu = device.type == "cuda"
        self.actor, self.log_alpha = mlp(OBS, 2 * ACT).to(device), torch.zeros((), device=device, requires_grad=True)
        self.critics, self.targets = ([mlp(OBS + ACT, 1).to(device) for _ in range(2)] for _ in range(2))
        for c, t in zip(self.critics, self.targets):
            t.load_state_dict(c.state_dict())
        self.online = [p for c in self.critics for p in c.parameters()]
        self.slow = [p.requires_grad_(False) for t in self.targets for p in t.parameters()]
        self.optimizers = [torch.optim.Adam(p, lr=3e-4, eps=1e-4, capturable=on_gpu) for p in (list(self.actor.parameters()), self.online, [self.log_alpha])]

    def act(self, s):
        mean, raw = self.actor(s).chunk(2, -1)
        u = torch.distributions.Normal(mean, raw.clamp(-5, 2).exp(), validate_args=False)
        x = u.rsample()
        a = torch.tanh(x)
        return a, (u.log_prob(x) - 2 * (math.log(2) - x - nn.functional.softplus(-2 * x))).sum(-1, keepdim=True)

    def update(self, optimizer, loss, parameters):
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters)):
            p.grad = g
        optimizer.step()

    def step(self, s, a, r, following, live):
        with torch.no_grad():
            b, logp = self.act(following)
            x = torch.cat([following, b], -1)
            soft = torch.minimum(*(t(x) for t in self.targets)) - self.log_alpha.exp() * logp
            wanted = r + 0.98 * live * soft
        x = torch.cat([s, a], -1)
        loss = sum((c(x) - wanted).square().mean() for c in self.critics)
        self.update(self.optimizers[1], loss, self.online)
        b, logp = self.act(s)
        x = torch.cat([s, b], -1)
        self.update(self.optimizers[0], (self.log_alpha.exp().detach() * logp - torch.minimum(*(c(x) for c in self.critics))).mean(), list(self.actor.parameters()))
        self.update(self.optimizers[2], -(self.log_alpha * (logp.detach() - ACT)).mean(), [self.log_alpha])
        torch._foreach_lerp_(self.slow, [p.detach() for p in self.online], 0.01)
        return loss.detach(), self.log_alpha.detach(), wanted


def build(device):
    agent = Agent(device)
    sizes = [(64, OBS), (64, ACT), (64, 1), (64, OBS)]
    args = tuple(torch.zeros(s, device=device) for s in sizes) + (torch.ones(64, 1, device=device, dtype=torch.bool),)

    def refresh(args, kwargs, k):
        for t in args[:4]:
            t.copy_(torch.randn(t.shape))
        args[1].tanh_()
        args[4].copy_(torch.rand(64, 1) < 0.9)

    return graphsafe.Step(agent.step, args, {}, refresh=refresh)
