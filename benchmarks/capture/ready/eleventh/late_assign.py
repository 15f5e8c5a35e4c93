"""A policy server takes new weights by load_state_dict(assign=True), late in its life."""
import torch
from torch import nn

import graphsafe


def build(device):
    policy = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4)).to(device)
    learner = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4)).to(device)
    published = 0

    @torch.no_grad()
    def act(obs):
        return policy(obs).softmax(-1)

    def refresh(args, kwargs, k):
        nonlocal published
        args[0].copy_(torch.randn(16, 12))
        if k // 170 > published:
            published = k // 170
            policy.load_state_dict({n: t.clone() for n, t in learner.state_dict().items()}, assign=True)

    return graphsafe.Step(act, (torch.randn(16, 12, device=device),), refresh=refresh)
