"""Locomotion environments with delayed actuators: a circular buffer of commands with a pointer on the host."""
import torch

import graphsafe


class CircularBuffer:
    def __init__(self, length, envs, dim, device):
        self.buffer = torch.zeros(length, envs, dim, device=device)
        self.pointer, self.length = -1, length

    def append(self, data):
        self.pointer = (self.pointer + 1) % self.length
        self.buffer[self.pointer].copy_(data)

    def stacked(self):
        """Newest entry first."""
        return torch.roll(self.buffer, -self.pointer - 1, 0).flip(0)


class Actuators:
    def __init__(self, device, envs=6, dim=3):
        self.delay = CircularBuffer(5, envs, dim, device)
        self.lags = torch.randint(0, 4, (1, envs, 1)).expand(1, envs, dim).contiguous().to(device)
        self.position = torch.zeros(envs, dim, device=device)
        self.velocity = torch.zeros(envs, dim, device=device)

    def step(self, action):
        self.delay.append(action)
        command = self.delay.stacked().gather(0, self.lags)[0]
        torque = 4.0 * (command - self.position) - 0.8 * self.velocity
        self.velocity.add_(torque, alpha=0.1)
        self.position.add_(self.velocity, alpha=0.1)
        return torch.cat([self.position, self.velocity], 1)


def build(device):
    actuators = Actuators(device)

    def refresh(args, kwargs, k):
        if k % 50 == 49:
            actuators.lags.copy_(torch.randint(0, 4, (1, 6, 1)).expand(1, 6, 3))
        args[0].copy_(torch.randn(6, 3))

    return graphsafe.Step(actuators.step, (torch.randn(6, 3, device=device),), refresh=refresh)
