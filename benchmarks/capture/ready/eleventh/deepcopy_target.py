"""DQN: the target network is a deep copy, made anew at each hard update."""
import copy

import torch
from torch import nn

import graphsafe


class Agent:
    def __init__(self, device):
        self.online = nn.Linear(6, 3).to(device)
        self.target = copy.deepcopy(self.online)
        self.opt = torch.optim.SGD(self.online.parameters(), lr=0.05)

    def learn(self, obs, reward, following):
        self.opt.zero_grad(set_to_none=False)
        with torch.no_grad():
            goal = reward + 0.9 * self.target(following).amax(1)
        loss = (self.online(obs).amax(1) - goal).square().mean()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def between(self, args, kwargs, k):
        for a in args:
            a.copy_(torch.randn(a.shape))
        if k and k % 75 == 0:
            self.target = copy.deepcopy(self.online)


def build(device):
    agent = Agent(device)
    args = (torch.randn(16, 6, device=device), torch.randn(16, device=device), torch.randn(16, 6, device=device))
    return graphsafe.Step(agent.learn, args, refresh=agent.between)
