"""SAC update (CleanRL): two critics, squashed Gaussian actor, automatic temperature, target networks, all on the device."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, o))


class Actor(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.net = mlp(obs, 2 * act)

    def forward(self, s):
        mean, log_std = self.net(s).chunk(2, -1)
        log_std = -5 + 0.5 * 7 * (torch.tanh(log_std) + 1)
        eps = torch.randn_like(mean)
        x = mean + log_std.exp() * eps
        y = torch.tanh(x)
        logp = (-0.5 * eps.square() - log_std - 0.9189385332046727 - torch.log(1 - y.square() + 1e-6)).sum(-1, keepdim=True)
        return y, logp


class SAC:
    def __init__(self, device, obs=5, act=2, tau=0.005):
        self.actor = Actor(obs, act).to(device)
        self.q = nn.ModuleList([mlp(obs + act, 1), mlp(obs + act, 1)]).to(device)
        self.qt = copy.deepcopy(self.q).requires_grad_(False)
        self.log_alpha = torch.zeros(1, requires_grad=True, device=device)
        kw = dict(lr=3e-4, capturable=True)
        self.q_opt = torch.optim.Adam(self.q.parameters(), **kw)
        self.a_opt = torch.optim.Adam(self.actor.parameters(), **kw)
        self.t_opt = torch.optim.Adam([self.log_alpha], **kw)
        self.target_entropy, self.tau = -float(act), tau

    def update(self, s, a, r, s2, d):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            a2, lp2 = self.actor(s2)
            sa2 = torch.cat([s2, a2], -1)
            y = r + 0.99 * (1 - d) * (torch.min(self.qt[0](sa2), self.qt[1](sa2)) - alpha * lp2)
        sa = torch.cat([s, a], -1)
        q_loss = F.mse_loss(self.q[0](sa), y) + F.mse_loss(self.q[1](sa), y)
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()

        pi, logp = self.actor(s)
        spi = torch.cat([s, pi], -1)
        a_loss = (alpha * logp - torch.min(self.q[0](spi), self.q[1](spi))).mean()
        self.a_opt.zero_grad()
        a_loss.backward()
        self.a_opt.step()

        t_loss = (-self.log_alpha.exp() * (logp.detach() + self.target_entropy)).mean()
        self.t_opt.zero_grad()
        t_loss.backward()
        self.t_opt.step()
        with torch.no_grad():
            for p, t in zip(self.q.parameters(), self.qt.parameters()):
                t.lerp_(p, self.tau)
        return q_loss.detach(), a_loss.detach(), alpha


def build(device, n=16):
    sac = SAC(device)
    shapes = [(n, 5), (n, 2), (n, 1), (n, 5), (n, 1)]
    args = tuple(torch.zeros(s, device=device) for s in shapes)

    def refresh(args, kwargs, k):
        for a in args[:4]:
            a.copy_(torch.randn(a.shape))
        args[1].tanh_()
        args[4].copy_((torch.rand(n, 1) < 0.1).float())

    refresh(args, {}, 0)
    return graphsafe.Step(sac.update, args, refresh=refresh)
