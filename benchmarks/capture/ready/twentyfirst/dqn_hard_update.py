"""DQN: the target network is replaced every 500 updates."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class DQN:
    def __init__(self, device, obs=6, actions=3, gamma=0.99, sync_every=500):
        self.q = nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, actions)).to(device)
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.AdamW(self.q.parameters(), lr=1e-3, amsgrad=True, capturable=True)
        self.gamma, self.sync_every = gamma, sync_every
        self.updates = 0

    def update(self, obs, action, reward, following, done):
        with torch.no_grad():
            best = self.q(following).argmax(1, keepdim=True)
            value = self.target(following).gather(1, best).squeeze(1)
            goal = reward + self.gamma * value * (1 - done)
        pred = self.q(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(pred, goal)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(self.q.parameters(), 100)
        self.opt.step()
        self.updates += 1
        if self.updates % self.sync_every == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss.detach(), pred.detach()


def build(device, n=16):
    torch.manual_seed(23)
    agent = DQN(device)
    args = (
        torch.randn(n, 6, device=device),
        torch.randint(3, (n,), device=device),
        torch.randn(n, device=device),
        torch.randn(n, 6, device=device),
        torch.zeros(n, device=device),
    )

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 6))
        args[1].copy_(torch.randint(3, (n,)))
        args[2].copy_(torch.randn(n))
        args[3].copy_(torch.randn(n, 6))
        args[4].copy_((torch.rand(n) < 0.1).float())

    return graphsafe.Step(agent.update, args, refresh=refresh)
