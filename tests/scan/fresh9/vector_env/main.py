"""A batched pendulum environment with automatic resets."""

import abc

import torch


class Env(abc.ABC):
    @abc.abstractmethod
    def dynamics(self, state, action): ...

    @abc.abstractmethod
    def spawn(self, count): ...

    def step(self, action):
        following = self.dynamics(self.state, action)
        self.age.add_(1)
        done = self._terminal(following)
        if self._any_done(done):
            fresh = self.spawn(following.shape[0])
            following = torch.where(done.unsqueeze(1), fresh, following)
            self.age.mul_(~done)
        self.state.copy_(following)
        return self.state.clone(), self._reward(following), done

    @staticmethod
    def _any_done(done):
        return bool(done.any())

    def _terminal(self, state):
        return (state[:, 0].abs() > 2.5) | (self.age > self.horizon)

    def _reward(self, state):
        return -state.square().sum(dim=1)


class Pendulum(Env):
    def __init__(self, count, device, horizon=200, seed=7):
        self.device = device
        self.horizon = horizon
        self.source = torch.Generator(device=device)
        self.source.manual_seed(seed)
        self.state = torch.zeros(count, 2, device=device)
        self.age = torch.zeros(count, dtype=torch.long, device=device)

    def dynamics(self, state, action):
        angle, speed = state.unbind(dim=1)
        speed = speed + 0.05 * (torch.sin(angle) * 9.8 + action)
        speed = speed + 0.01 * self._shake(speed.shape[0])
        return torch.stack([angle + 0.05 * speed, speed], dim=1)

    def _shake(self, count):
        return torch.randn(count, generator=self.source, device=self.device)

    def spawn(self, count):
        return torch.rand(count, 2, device=self.device) - 0.5


def build(device):
    env = Pendulum(8, device)
    return env.step, (torch.randn(8, device=device),)
