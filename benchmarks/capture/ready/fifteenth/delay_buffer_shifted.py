"""Locomotion environments with delayed actuators: the buffer of commands is shifted in place, newest first."""
import torch

import graphsafe


class DelayBuffer:
    def __init__(self, length, envs, dim, device):
        self.buffer = torch.zeros(length, envs, dim, device=device)
        self.pushes, self.length = 0, length

    def append(self, data):
        self.pushes += 1
        self.buffer[1:].copy_(self.buffer[:-1].clone())
        self.buffer[0].copy_(data)

    @property
    def is_full(self):
        return self.pushes >= self.length

    def reset(self, mask):
        self.buffer.mul_((~mask).view(1, -1, 1))


class Actuators:
    def __init__(self, device, envs=6, dim=3):
        self.delay = DelayBuffer(5, envs, dim, device)
        self.lags = torch.randint(0, 4, (1, envs, 1)).expand(1, envs, dim).contiguous().to(device)
        self.position = torch.zeros(envs, dim, device=device)
        self.velocity = torch.zeros(envs, dim, device=device)
        self.log = {"full": False}

    def step(self, action):
        self.delay.append(action)
        self.log["full"] = self.delay.is_full
        command = self.delay.buffer.gather(0, self.lags)[0]
        torque = 4.0 * (command - self.position) - 0.8 * self.velocity
        self.velocity.add_(torque, alpha=0.1)
        self.position.add_(self.velocity, alpha=0.1)
        far = self.position.abs().amax(1) > 2.0
        self.delay.reset(far)
        self.position.mul_((~far).unsqueeze(1))
        return torch.cat([self.position, self.velocity], 1)


def build(device):
    actuators = Actuators(device)

    def refresh(args, kwargs, k):
        if k % 50 == 49:
            actuators.lags.copy_(torch.randint(0, 4, (1, 6, 1)).expand(1, 6, 3))
        args[0].copy_(torch.randn(6, 3))

    return graphsafe.Step(actuators.step, (torch.randn(6, 3, device=device),), refresh=refresh)
