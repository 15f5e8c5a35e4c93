"""The policy: a small network with a normaliser of observations."""

import torch
import torch.nn as nn

OBS, ACT, ENVS = 10, 3, 64


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 64), nn.ELU(), nn.Linear(64, ACT))
        self.value = nn.Linear(OBS, 1)
        self.register_buffer("center", torch.zeros(OBS))

    def forward(self, obs):
        shifted = obs - self.center
        return torch.tanh(self.body(shifted)), self.value(shifted).squeeze(-1)
