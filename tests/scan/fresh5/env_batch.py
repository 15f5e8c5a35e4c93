"""Vectorised pendulum-on-cart with automatic resets."""
from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Physics:
    gravity: float = 9.8
    cart: float = 1.0
    pole: float = 0.1
    half_length: float = 0.5
    force: float = 10.0
    dt: float = 0.02
    limit_x: float = 2.4
    limit_angle: float = 0.21
    horizon: int = 500

    @property
    def total(self) -> float:
        return self.cart + self.pole

    @property
    def moment(self) -> float:
        return self.pole * self.half_length


class EpisodeStats:
    def __init__(self, envs: int, device):
        self.returns = torch.zeros(envs, device=device)
        self.length = torch.zeros(envs, dtype=torch.int32, device=device)
        self.finished = torch.zeros((), dtype=torch.int64, device=device)
        self.total = torch.zeros((), device=device)

    def __iadd__(self, reward: torch.Tensor) -> "EpisodeStats":
        self.returns.add_(reward)
        self.length.add_(1)
        return self

    def close(self, done: torch.Tensor) -> None:
        self.finished.add_(done.sum())
        self.total.add_(torch.where(done, self.returns, 0.0).sum())
        self.returns.masked_fill_(done, 0.0)
        self.length.masked_fill_(done, 0)


class CartPoleBatch:
    def __init__(self, envs: int, device, physics: Physics = Physics()):
        self.p = physics
        self.state = (torch.rand(envs, 4, device=device) - 0.5) * 0.1
        self.stats = EpisodeStats(envs, device)

    def _dynamics(self, action: torch.Tensor) -> torch.Tensor:
        p = self.p
        x, v, angle, spin = self.state.unbind(1)
        push = torch.where(action > 0, p.force, -p.force)
        sin, cos = angle.sin(), angle.cos()
        common = (push + p.moment * spin.square() * sin) / p.total
        spin_acc = (p.gravity * sin - cos * common) / (
            p.half_length * (4.0 / 3.0 - p.pole * cos.square() / p.total)
        )
        acc = common - p.moment * spin_acc * cos / p.total
        return torch.stack((x + p.dt * v, v + p.dt * acc, angle + p.dt * spin, spin + p.dt * spin_acc), 1)

    def __call__(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        p = self.p
        moved = self._dynamics(action)
        self.stats += torch.ones_like(moved[:, 0])
        out = (moved[:, 0].abs() > p.limit_x) | (moved[:, 2].abs() > p.limit_angle)
        done = out | (self.stats.length >= p.horizon)
        self.stats.close(done)
        fresh = (torch.rand_like(moved) - 0.5) * 0.1
        self.state.copy_(torch.where(done[:, None], fresh, moved))
        return self.state.clone(), (~out).float(), done


def build(device, envs: int = 128):
    torch.manual_seed(11)
    env = CartPoleBatch(envs, device)
    return env, (torch.randint(0, 2, (envs,), device=device),)
