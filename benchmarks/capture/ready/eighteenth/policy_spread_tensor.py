"""A policy step returns values and the action distribution: sound, its spread is a tensor that the loop fills."""
import torch
from torch import nn
from torch.distributions import Normal

import graphsafe


class ActorCritic(nn.Module):
    def __init__(self, seen=6, acts=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(seen, 32), nn.Tanh())
        self.mean, self.value = nn.Linear(32, acts), nn.Linear(32, 1)
        self.register_buffer("spread", torch.tensor(0.6))

    def forward(self, seen):
        hidden = self.body(seen)
        mean = self.mean(hidden)
        return self.value(hidden).squeeze(-1), Normal(mean, self.spread.expand_as(mean), validate_args=False)


def build(device):
    model = ActorCritic().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 6))
        model.spread.fill_(max(0.1, 0.6 * 0.98**k))

    return graphsafe.Step(model, (torch.randn(8, 6, device=device),), refresh=refresh)
