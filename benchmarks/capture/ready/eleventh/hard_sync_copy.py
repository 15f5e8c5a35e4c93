"""DQN: the target network is written in place at each hard update, and the optimizer's moments are kept on the device."""
import torch
from torch import nn

import graphsafe


class Agent:
    def __init__(self, device):
        self.online, self.target = nn.Linear(6, 3).to(device), nn.Linear(6, 3).to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.NAdam(self.online.parameters(), lr=1e-3, capturable=device.type == "cuda")

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
            with torch.no_grad():
                torch._foreach_copy_(list(self.target.parameters()), list(self.online.parameters()))


def build(device):
    agent = Agent(device)
    args = (torch.randn(16, 6, device=device), torch.randn(16, device=device), torch.randn(16, 6, device=device))
    return graphsafe.Step(agent.learn, args, refresh=agent.between)
