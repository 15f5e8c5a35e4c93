"""An RL worker trains a policy and acts by an int8 mirror of it, which the loop renews if it has counted a training step since."""
import torch
from torch import nn

import graphsafe


class Mirror:
    def __init__(self, weight):
        self.weight = weight
        self.codes = torch.zeros(weight.shape, dtype=torch.int8, device=weight.device)
        self.scale = torch.ones((), device=weight.device)
        self.version = -1

    @torch.no_grad()
    def sync(self):
        if self.weight._version == self.version:
            return  # nothing was trained since the last export
        self.version = self.weight._version
        self.scale.copy_(self.weight.abs().amax() / 127.0)
        self.codes.copy_((self.weight / self.scale).round().clamp(-127, 127))


def build(device, batch=8, width=12, actions=5):
    policy = nn.Linear(width, actions, bias=False).to(device)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1, momentum=0.8)
    mirror = Mirror(policy.weight)
    mirror.sync()
    state = torch.randn(batch, width).to(device)
    reward = torch.rand(batch).to(device)

    def step(state, reward):
        with torch.no_grad():
            action = (state @ (mirror.codes * mirror.scale).t()).argmax(-1, keepdim=True)
        optimizer.zero_grad(set_to_none=False)
        logp = torch.log_softmax(policy(state), dim=-1).gather(1, action).squeeze(1)
        loss = -(logp * reward).mean()
        loss.backward()
        optimizer.step()
        return action, loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        args[1].copy_(torch.rand(batch))
        torch.autograd.graph.increment_version(policy.weight)  # a replay trains without telling autograd
        if k % 10 == 9:
            mirror.sync()

    return graphsafe.Step(step, (state, reward), refresh=refresh)
