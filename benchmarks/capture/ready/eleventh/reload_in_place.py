"""A policy server takes new weights by load_state_dict, which copies."""
import torch
from torch import nn

import graphsafe


def build(device):
    policy = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4)).to(device)
    learner = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4)).to(device)

    @torch.no_grad()
    def act(obs):
        return policy(obs).softmax(-1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 12))
        if k % 30 == 29:
            with torch.no_grad():
                learner[0].weight.mul_(0.9)
            policy.load_state_dict(learner.state_dict())

    return graphsafe.Step(act, (torch.randn(16, 12, device=device),), refresh=refresh)
