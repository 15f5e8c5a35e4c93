"""A fleet of pendulums; finished ones restart inside the step."""

import logging
from dataclasses import dataclass

import torch

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PendulumParams:
    gravity: float = 10.0
    length: float = 1.0
    mass: float = 1.0
    dt: float = 0.05
    max_torque: float = 2.0
    max_speed: float = 8.0
    horizon: int = 150


class RestartMixin:
    def restart_where(self, done: torch.Tensor) -> None:
        start = self.sample_start()
        for current, fresh in zip((self.angle, self.speed), start):
            current.copy_(torch.where(done, fresh, current))
        self.age[done] = 0


class Pendulums(RestartMixin):
    def __init__(self, count: int, device, params: PendulumParams = PendulumParams()):
        self.count = count
        self.params = params
        self.angle = torch.zeros(count, device=device)
        self.speed = torch.zeros(count, device=device)
        self.age = torch.randint(0, params.horizon, (count,), device=device)
        self.returns = torch.zeros(count, device=device)

    def sample_start(self):
        angle = (torch.rand_like(self.angle) * 2 - 1) * torch.pi
        speed = torch.rand_like(self.speed) * 2 - 1
        return angle, speed

    def cost(self, torque: torch.Tensor) -> torch.Tensor:
        wrapped = torch.remainder(self.angle + torch.pi, 2 * torch.pi) - torch.pi
        return wrapped.square() + 0.1 * self.speed.square() + 0.001 * torque.square()

    def step(self, action: torch.Tensor):
        p = self.params
        if action.shape != (self.count,):
            raise ValueError(f"need {self.count} actions, got {tuple(action.shape)}")
        logger.debug("step of %d pendulums on %s", self.count, action.device)
        torque = action.clamp(-p.max_torque, p.max_torque)
        cost = self.cost(torque)
        pull = 1.5 * p.gravity / p.length * self.angle.sin() + 3.0 / (p.mass * p.length**2) * torque
        self.speed.add_(pull, alpha=p.dt).clamp_(-p.max_speed, p.max_speed)
        self.angle.add_(self.speed, alpha=p.dt)
        self.age.add_(1)
        done = self.age >= p.horizon
        self.returns.sub_(cost).mul_(~done)
        self.restart_where(done)
        return torch.stack([self.angle.cos(), self.angle.sin(), self.speed], -1), -cost, done


def build(device):
    env = Pendulums(64, device)
    return env.step, (torch.randn(64, device=device),)
