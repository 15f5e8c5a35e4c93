import torch
from torch import nn
from torch.distributions.utils import logits_to_probs


class ActorCritic(nn.Module):
    def __init__(self, obs, act, width=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, act)
        self.v = nn.Linear(width, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h).log_softmax(-1), self.v(h).squeeze(-1)

    def entropy(self, logp):
        return -(logits_to_probs(logp) * logp).sum(-1)
