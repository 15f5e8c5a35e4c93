"""DQN learner: each loop turn, 16 parallel environments add their transitions to the full device buffer, then one update."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Replay:
    def __init__(self, size, device, obs=4):
        self.size, self.pos = size, 0
        self.s = torch.randn(size, obs, device=device)
        self.s2 = torch.randn(size, obs, device=device)
        self.a = torch.randint(0, 3, (size,), device=device)
        self.r = torch.randn(size, device=device)

    def add(self, s, a, r, s2):
        n = s.shape[0]
        at = slice(self.pos, self.pos + n)
        for buf, new in ((self.s, s), (self.a, a), (self.r, r), (self.s2, s2)):
            buf[at].copy_(new)
        self.pos = (self.pos + n) % self.size

    def sample(self, n):
        i = torch.randint(self.size, (n,), device=self.s.device)
        return self.s[i], self.a[i], self.r[i], self.s2[i]


class Agent:
    def __init__(self, device):
        self.q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-3, capturable=True)
        self.replay = Replay(1024, device)

    def learn(self):
        s, a, r, s2 = self.replay.sample(64)
        with torch.no_grad():
            y = r + 0.99 * self.target(s2).amax(1)
        loss = F.smooth_l1_loss(self.q(s).gather(1, a[:, None])[:, 0], y)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.q.parameters(), 100)
        self.opt.step()
        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.q.parameters()):
                t.lerp_(p, 0.005)
        return loss.detach()


def build(device, envs=16):
    agent = Agent(device)

    def refresh(args, kwargs, k):
        agent.replay.add(torch.randn(envs, 4), torch.randint(0, 3, (envs,)), torch.randn(envs), torch.randn(envs, 4))

    return graphsafe.Step(agent.learn, refresh=refresh)
