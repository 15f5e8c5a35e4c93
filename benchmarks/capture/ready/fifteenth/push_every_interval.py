"""Vectorised robots that are pushed at an interval, as a term of the event manager asks for."""
import torch

import graphsafe


class Robots:
    def __init__(self, device, envs=8):
        self.velocity = torch.zeros(envs, 2, device=device)
        self.height = torch.ones(envs, device=device)
        self.common_step_counter = 0
        self.episode_length = torch.zeros(envs, dtype=torch.long, device=device)

    def apply_events(self):
        if self.common_step_counter % 45 == 0:
            self.velocity.add_(torch.rand_like(self.velocity) * 2 - 1)

    def physics(self, action):
        self.velocity.mul_(0.95).add_(action, alpha=0.1)
        self.height.sub_(self.velocity.square().sum(1), alpha=0.02).add_(0.01).clamp_(0.0, 1.0)

    def reset(self, dead):
        self.episode_length.mul_(~dead)
        self.height.copy_(torch.where(dead, torch.ones_like(self.height), self.height))
        self.velocity.mul_((~dead).unsqueeze(1))

    def step(self, action):
        self.common_step_counter += 1
        self.episode_length.add_(1)
        self.apply_events()
        self.physics(action)
        dead = (self.height < 0.3) | (self.episode_length > 100)
        reward = self.height * 0.5
        self.reset(dead)
        return torch.cat([self.velocity, self.height.unsqueeze(1)], 1), reward, dead


def build(device):
    robots = Robots(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 2))

    return graphsafe.Step(robots.step, (torch.randn(8, 2, device=device),), refresh=refresh)
