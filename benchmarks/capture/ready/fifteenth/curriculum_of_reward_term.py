"""Reward manager of a vectorised environment: terms with weights, and a curriculum that raises one of them."""
import torch

import graphsafe


from dataclasses import dataclass


@dataclass
class Term:
    func: object
    weight: float


def tracking(env):
    return torch.exp(-(env.velocity - env.command).square().sum(1))


def effort(env):
    return env.action.square().sum(1)


class Env:
    def __init__(self, device, envs=8):
        self.velocity = torch.zeros(envs, 2, device=device)
        self.command = torch.randn(envs, 2, device=device)
        self.action = torch.zeros(envs, 2, device=device)
        self.terms = {"tracking": Term(tracking, 1.0), "effort": Term(effort, -0.01)}
        self.common_step_counter = 0
        self.sums = {name: torch.zeros(envs, device=device) for name in self.terms}

    def curriculum(self):
        if self.common_step_counter > 120:
            self.terms["effort"].weight = -0.1

    def step(self, action):
        self.action.copy_(action)
        self.velocity.mul_(0.9).add_(action, alpha=0.1)
        reward = torch.zeros_like(self.velocity[:, 0])
        for name, term in self.terms.items():
            if term.weight == 0.0:
                continue
            value = term.func(self) * term.weight
            reward = reward + value
            self.sums[name].add_(value)
        self.common_step_counter += 1
        return self.velocity + 0.0, reward


def build(device):
    env = Env(device)
    counter = [0]

    def refresh(args, kwargs, k):
        counter[0] += 1
        env.common_step_counter = counter[0]
        env.curriculum()
        args[0].copy_(torch.randn(8, 2))

    return graphsafe.Step(env.step, (torch.randn(8, 2, device=device),), refresh=refresh)
