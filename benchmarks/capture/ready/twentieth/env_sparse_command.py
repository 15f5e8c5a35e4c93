"""A batched point-robot environment with a policy: state in place, resets by a mask, a new command only every 25th step."""
import torch
import torch.nn as nn

import graphsafe


class PointEnv:
    def __init__(self, device, n=16, dt=0.05, horizon=60):
        self.pos = torch.zeros(n, 2, device=device)
        self.vel = torch.zeros(n, 2, device=device)
        self.age = torch.zeros(n, dtype=torch.long, device=device)
        self.command = torch.zeros(n, 2, device=device)
        self.episode_return = torch.zeros(n, device=device)
        self.dt, self.horizon = dt, horizon
        self.policy = nn.Sequential(nn.Linear(6, 32), nn.ELU(), nn.Linear(32, 2)).to(device).requires_grad_(False)

    def observe(self):
        return torch.cat([self.pos, self.vel, self.command], -1)

    def step(self):
        action = torch.tanh(self.policy(self.observe())) + 0.1 * torch.randn_like(self.vel)
        self.vel.add_(action, alpha=self.dt).mul_(0.98)
        self.pos.add_(self.vel, alpha=self.dt)
        self.age.add_(1)
        error = (self.vel - self.command).square().sum(-1)
        reward = torch.exp(-error / 0.25)
        self.episode_return.add_(reward)
        done = (self.age >= self.horizon) | (self.pos.abs().amax(-1) > 5)
        keep = (~done).to(self.pos.dtype)
        self.pos.mul_(keep[:, None])
        self.vel.mul_(keep[:, None])
        self.age.mul_(~done)
        self.episode_return.mul_(keep)
        return self.observe(), reward, done

    def resample(self, k):
        if k % 25 == 0:
            self.command.copy_(torch.rand(self.command.shape) * 2 - 1)

    def reset(self):
        for t in (self.pos, self.vel, self.age, self.episode_return):
            t.zero_()


def build(device):
    env = PointEnv(device)
    return graphsafe.Step(env.step, refresh=lambda a, kw, k: env.resample(k), reset=env.reset)
