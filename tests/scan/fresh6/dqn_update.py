"""Double-DQN update on a replay batch, with soft target tracking."""
import random

import torch
import torch.nn.functional as F
from torch import nn


def q_network(n_obs, n_act, width=64):
    return nn.Sequential(
        nn.Linear(n_obs, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, n_act),
    )


class Priorities:
    """Largest priority seen so far and the scaling of new ones."""

    def __init__(self, alpha=0.6, floor=1e-3):
        self.alpha = alpha
        self.floor = floor
        self.largest = 1.0

    def assign(self, err):
        prio = (err.abs() + self.floor) ** self.alpha
        self.largest = max(self.largest, prio.max().item())
        return prio


class Learner:
    def __init__(self, online, target, n_act, gamma=0.99, tau=0.01, lr=1e-3, smooth=0.1):
        self.online = online
        self.target = target
        self.n_act = n_act
        self.gamma = gamma
        self.tau = tau
        self.lr = lr
        self.smooth = smooth
        self.prio = Priorities()
        self.pairs = list(zip(target.parameters(), online.parameters()))

    @torch.no_grad()
    def _bootstrap(self, nxt, reward, done):
        best = self.online(nxt).argmax(dim=1, keepdim=True)
        if random.random() < self.smooth:
            best = (best + 1) % self.n_act
        value = self.target(nxt).gather(1, best).squeeze(1)
        return reward + self.gamma * value * (~done)

    @torch.no_grad()
    def _apply(self, grads):
        for p, g in zip(self.online.parameters(), grads):
            p.add_(g, alpha=-self.lr)
        for t, p in self.pairs:
            t.lerp_(p, self.tau)

    def update(self, obs, action, reward, nxt, done, valid):
        goal = self._bootstrap(nxt, reward, done)
        chosen = self.online(obs).gather(1, action[:, None]).squeeze(1)
        err = goal - chosen
        loss = F.smooth_l1_loss(err[valid], torch.zeros_like(err[valid]))
        grads = torch.autograd.grad(loss, list(self.online.parameters()))
        self._apply(grads)
        return loss.detach(), self.prio.assign(err.detach())


def build(device):
    torch.manual_seed(11)
    n_obs, n_act, batch = 10, 5, 64
    online = q_network(n_obs, n_act).to(device)
    target = q_network(n_obs, n_act).to(device)
    target.load_state_dict(online.state_dict())
    target.requires_grad_(False)
    learner = Learner(online, target, n_act)
    args = (
        torch.randn(batch, n_obs, device=device),
        torch.randint(0, n_act, (batch,), device=device),
        torch.randn(batch, device=device),
        torch.randn(batch, n_obs, device=device),
        torch.rand(batch, device=device) < 0.1,
        torch.rand(batch, device=device) < 0.9,
    )
    return learner.update, args
