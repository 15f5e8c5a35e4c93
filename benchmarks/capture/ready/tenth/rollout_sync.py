"""A rollout worker adopts the learner's parameters every 512 steps, without copying them."""
import torch
from torch import nn

import graphsafe


class Actor(nn.Module):
    def __init__(self, width, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, actions))

    def forward(self, state):
        logits = self.body(state)
        gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
        return (logits + gumbel).argmax(-1), torch.log_softmax(logits, dim=-1)


class Worker:
    PERIOD = 512

    def __init__(self, device, width, actions):
        self.actor = Actor(width, actions).to(device).eval().requires_grad_(False)
        self.learner = Actor(width, actions).to(device).requires_grad_(False)

    def learn(self):  # stands for the learner's process
        for p in self.learner.parameters():
            p.add_(torch.randn(p.shape).to(p.device), alpha=0.05)

    def maybe_adopt(self, k):
        if k % self.PERIOD == self.PERIOD - 1:
            self.learn()
            snapshot = {name: value.clone() for name, value in self.learner.state_dict().items()}
            self.actor.load_state_dict(snapshot, assign=True)


def build(device, batch=4, width=10, actions=6):
    worker = Worker(device, width, actions)
    state = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        worker.maybe_adopt(k)
        args[0].copy_(torch.randn(batch, width))

    return graphsafe.Step(worker.actor, (state,), refresh=refresh)
