"""GRPO advantages and loss for groups of sampled answers."""
import torch
import torch.nn as nn


class Baseline:
    def __init__(self):
        self.mean = None

    def update(self, reward):
        if self.mean is None:
            self.mean = reward.mean().detach()
        self.mean = 0.95 * self.mean + 0.05 * reward.mean()
        return self.mean


class Grpo:
    def __init__(self, policy, groups: int, beta: float):
        self.policy = policy
        self.groups = groups
        self.beta = beta
        self.baseline = Baseline()
        self.updates = 0

    def advantages(self, reward):
        grouped = reward.view(self.groups, -1)
        spread = grouped.std(1, keepdim=True)
        if (spread == 0).any():
            spread = spread + 1e-4
        return ((grouped - grouped.mean(1, keepdim=True)) / spread).flatten()

    def __call__(self, states, actions, old, reward):
        self.updates += 1
        beta = self.beta / self.updates
        logp = self.policy(states).log_softmax(-1).gather(1, actions.unsqueeze(1)).squeeze(1)
        gain = self.advantages(reward - self.baseline.update(reward))
        ratio = (logp - old).exp()
        surrogate = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        drift = (old - logp).exp() - (old - logp) - 1
        return (beta * drift - surrogate).mean()


def build(device):
    torch.manual_seed(19)
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 5)).to(device).requires_grad_(False)
    states, reward = torch.randn(16, 6, device=device), torch.randn(16, device=device)
    actions = torch.randint(5, (16,), device=device)
    return Grpo(policy, groups=4, beta=0.1), (states, actions, -torch.rand(16, device=device), reward)
