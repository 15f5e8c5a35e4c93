"""A vectorised pendulum on the device. The curriculum makes it heavier once enough episodes have ended."""

import torch

import graphsafe


class Pendulums:
    def __init__(self, n, device):
        self.angle = torch.linspace(-1, 1, n, device=device)
        self.speed = torch.zeros(n, device=device)
        self.age = torch.arange(n, device=device) * 3
        self.finished = torch.zeros((), dtype=torch.long, device=device)
        self.gravity = 4.0

    def step(self, torque):
        self.speed.add_(torch.sin(self.angle), alpha=-0.05 * self.gravity).add_(torque, alpha=0.1)
        self.speed.mul_(0.98)
        self.angle.add_(self.speed, alpha=0.05)
        self.age += 1
        done = self.age >= 30
        self.finished += done.sum()
        self.age.masked_fill_(done, 0)
        self.speed.masked_fill_(done, 0.0)
        return -(self.angle**2), done


def build(device):
    env = Pendulums(8, device)
    policy = torch.nn.Linear(2, 1).to(device).requires_grad_(False)

    def rollout(noise):
        torque = policy(torch.stack([env.angle, env.speed], -1)).squeeze(-1) + 0.1 * noise
        reward, done = env.step(torque)
        return reward, done, env.angle.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8))
        if env.gravity < 9 and env.finished.item() >= 24:  # the runner's curriculum
            env.gravity = 9.81

    return graphsafe.Step(rollout, (torch.randn(8, device=device),), refresh=refresh)
