"""Double DQN update: replay buffer on the device (already full), Huber loss, Polyak averaging of the target."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Buffer:
    def __init__(self, size, obs, device):
        self.size = size
        self.obs = torch.randn(size, obs, device=device)
        self.next = torch.randn(size, obs, device=device)
        self.act = torch.randint(0, 3, (size,), device=device)
        self.rew = torch.randn(size, device=device)
        self.done = (torch.rand(size, device=device) < 0.05).float()

    def sample(self, n):
        i = torch.randint(0, self.size, (n,), device=self.obs.device)
        return self.obs[i], self.act[i], self.rew[i], self.next[i], self.done[i]


class Learner:
    def __init__(self, device, tau=0.005):
        self.q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.AdamW(self.q.parameters(), lr=1e-3, amsgrad=True, capturable=True)
        self.buffer = Buffer(256, 4, device)
        self.tau = tau

    def update(self):
        s, a, r, s2, d = self.buffer.sample(32)
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            y = r + 0.99 * (1 - d) * self.target(s2).gather(1, best).squeeze(1)
        qsa = self.q(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(qsa, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.q.parameters()), self.tau)
        return loss.detach()

    def collect(self, k):
        j = k % self.buffer.size
        self.buffer.obs[j].copy_(torch.randn(4))
        self.buffer.rew[j].fill_(float(k % 3))


def build(device):
    learner = Learner(device)
    return graphsafe.Step(learner.update, refresh=lambda a, kw, k: learner.collect(k))
