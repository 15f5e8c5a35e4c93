"""Reward manager whose weights are one device vector; the curriculum fills an entry."""
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
        self.terms = {"tracking": Term(tracking, 1.0), "effort": Term(effort, 0.0)}
        self.weights = torch.tensor([t.weight for t in self.terms.values()]).to(device)
        self.common_step_counter = 0
        self.extras = {}

    def set_weight(self, name, weight):
        self.terms[name].weight = weight
        self.weights[list(self.terms).index(name)].fill_(weight)

    def step(self, action):
        self.common_step_counter += 1
        self.action.copy_(action)
        self.velocity.mul_(0.9).add_(action, alpha=0.1)
        values = torch.stack([term.func(self) for term in self.terms.values()], 1)
        self.extras["active"] = [n for n, t in self.terms.items() if t.weight != 0.0]
        self.extras["mean"] = values.mean(0)
        return self.velocity + 0.0, values @ self.weights


def build(device):
    env = Env(device)

    def refresh(args, kwargs, k):
        if k in (40, 80, 120):
            env.set_weight("effort", -0.001 * k)
        args[0].copy_(torch.randn(8, 2))

    return graphsafe.Step(env.step, (torch.randn(8, 2, device=device),), refresh=refresh)
