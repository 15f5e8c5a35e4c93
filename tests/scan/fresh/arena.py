"""A vectorised environment and a policy stepped together."""
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))

    def forward(self, obs):
        return torch.tanh(self.body(obs))


class Arena:
    def __init__(self, count, device, horizon=100):
        self.pos = torch.zeros(count, 2, device=device)
        self.vel = torch.zeros(count, 2, device=device)
        self.age = torch.zeros(count, dtype=torch.long, device=device)
        self.horizon = horizon
        self.spawn = torch.tensor([0.5, -0.5], device=device)

    def observe(self):
        return torch.cat([self.pos, self.vel], -1)

    def step(self, action):
        self.vel.add_(action, alpha=0.1)
        self.pos.add_(self.vel, alpha=0.1)
        self.age.add_(1)
        done = (self.pos.norm(dim=-1) > 2.0) | (self.age >= self.horizon)
        reward = -self.pos.norm(dim=-1)
        self._restart(done)
        return reward, done

    def _restart(self, done):
        fresh = self.spawn + 0.1 * torch.rand_like(self.pos)
        self.pos[done] = fresh[done]
        self.vel.mul_(~done.unsqueeze(-1))
        self.age.mul_(~done)


class Rollout:
    def __init__(self, policy, arena):
        self.policy, self.arena = policy, arena
        self.finished = []

    @torch.no_grad()
    def collect(self, noise):
        obs = self.arena.observe()
        reward, done = self.arena.step(self.policy(obs) + 0.1 * noise)
        if done.any():
            self.finished.append(1)
        return reward, obs


def build(device):
    rollout = Rollout(Policy(4, 2).to(device), Arena(8, device))
    return rollout.collect, (torch.randn(8, 2, device=device),)
