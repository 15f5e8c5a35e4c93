"""DQN with a hard target update every 200 gradient steps, counted in Python."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class DQN:
    def __init__(self, device, obs=4, act=2, period=200):
        self.q = nn.Sequential(nn.Linear(obs, 24), nn.ReLU(), nn.Linear(24, act)).to(device)
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.RMSprop(self.q.parameters(), lr=1e-3, capturable=True)
        self.period = period
        self.updates = 0

    def learn(self, s, a, r, s2, done):
        with torch.no_grad():
            nxt = self.target(s2).max(1).values
            y = r + 0.99 * nxt * (1 - done)
        q = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = F.mse_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.period == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss.detach()


def build(device, n=16):
    agent = DQN(device)
    args = (torch.randn(n, 4, device=device), torch.randint(0, 2, (n,), device=device), torch.randn(n, device=device),
            torch.randn(n, 4, device=device), torch.zeros(n, device=device))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 4))
        args[1].copy_(torch.randint(0, 2, (n,)))
        args[2].copy_(torch.randn(n))
        args[3].copy_(torch.randn(n, 4))
        args[4].copy_((torch.rand(n) < 0.1).float())

    return graphsafe.Step(agent.learn, args, refresh=refresh)
