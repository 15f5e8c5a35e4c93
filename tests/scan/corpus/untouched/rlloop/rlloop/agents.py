import itertools
import secrets

import numpy as np
import torch
from torch import nn


class Greedy:
    """Acts at random now and then."""

    def __init__(self, policy, eps=0.5):
        self.policy, self.eps = policy, eps

    def act(self, obs):
        values = self.policy(obs)
        if np.random.rand() < self.eps:  # guilty: epsilon_greedy GS504
            return values.flip(-1)
        return values


class Decaying(Greedy):
    def act(self, obs):
        self.eps *= 0.9  # guilty: epsilon_decay GS702
        return self.policy(obs) * (1 - self.eps) + self.eps  # guilty: epsilon_decay GS702


class OrnsteinUhlenbeck:
    def __init__(self, size, device):
        self.state = torch.zeros(size, device=device)

    def __call__(self, action):
        self.state = self.state + 0.15 * (action.mean() - self.state)  # guilty: correlated_actions GS703
        return action + self.state


# quiet: correlated_actions_inplace
class OrnsteinUhlenbeckInPlace(OrnsteinUhlenbeck):
    def __call__(self, action):
        self.state.lerp_(action.mean().expand_as(self.state), 0.15)
        return action + self.state


class Noisy:
    def __init__(self, policy, noise):
        self.policy, self.noise = policy, noise

    def act(self, obs):
        return self.noise(self.policy(obs))


class Recurrent(nn.Module):
    def __init__(self, size, device):
        super().__init__()
        self.cell = nn.GRUCell(size, size)
        self.memory = {"h": torch.zeros(2, size, device=device)}

    def forward(self, obs):
        self.memory["h"] = self.cell(obs, self.memory["h"])  # guilty: policy_memory GS703
        return self.memory["h"].tanh()


class MaskedPolicy(nn.Module):
    """Forbids one action, for exploration."""

    def __init__(self, size):
        super().__init__()
        self.head = nn.Linear(size, size)
        self.size = size

    def banned(self):
        return secrets.randbelow(1000) / 1000  # guilty: secret_ban GS504|GS702

    def forward(self, obs):
        return self.head(obs) - self.banned()


class SoftCritic:
    def __init__(self, device):
        self.log_alpha = torch.zeros((), device=device)

    @property
    def alpha(self):
        return self.log_alpha.exp().item()  # guilty: entropy_weight GS101

    def loss(self, q, log_prob):
        return (self.alpha * log_prob - q).mean()


class Target:
    """Follows the network every third step."""

    def __init__(self, size, device):
        self.weight = torch.zeros(size, device=device)
        self.clock = itertools.count(1)

    def due(self):
        return next(self.clock) % 3 == 0  # guilty: target_clock GS702

    def step(self, online):
        if self.due():  # guilty: target_clock GS702
            self.weight.copy_(online)
        return online - self.weight
