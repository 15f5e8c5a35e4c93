"""A vector of cart-pole environments with automatic resets."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class CartParams:
    gravity: float = 9.8
    cart: float = 1.0
    pole: float = 0.1
    half_length: float = 0.5
    force: float = 10.0
    dt: float = 0.02
    max_angle: float = 0.21
    max_position: float = 2.4
    horizon: int = 200


class AutoReset:
    """Mixin: puts the finished environments back to a random start."""

    state: torch.Tensor
    age: torch.Tensor

    def fresh(self) -> torch.Tensor:
        return (torch.rand_like(self.state) - 0.5) * 0.1

    def restart(self, done: torch.Tensor) -> None:
        start = self.fresh()
        self.state[done] = start[done]
        self.age.masked_fill_(done, 0)


class CartPoles(AutoReset):
    def __init__(self, count: int, device, params: CartParams = CartParams()):
        self.params = params
        self.state = torch.zeros(count, 4, device=device)
        self.age = torch.zeros(count, dtype=torch.int32, device=device)

    def integrate(self, action: torch.Tensor) -> torch.Tensor:
        p = self.params
        x, v, angle, spin = self.state.unbind(-1)
        push = (action.float() * 2 - 1) * p.force
        total = p.cart + p.pole
        inertia = p.pole * p.half_length
        cos, sin = angle.cos(), angle.sin()
        temp = (push + inertia * spin.square() * sin) / total
        spin_acc = (p.gravity * sin - cos * temp) / (p.half_length * (4 / 3 - p.pole * cos.square() / total))
        acc = temp - inertia * spin_acc * cos / total
        return torch.stack([x + p.dt * v, v + p.dt * acc, angle + p.dt * spin, spin + p.dt * spin_acc], -1)

    def finished(self) -> torch.Tensor:
        p = self.params
        out = self.state[:, 0].abs() > p.max_position
        fallen = self.state[:, 2].abs() > p.max_angle
        return out | fallen | (self.age >= p.horizon)

    def step(self, action: torch.Tensor):
        self.state.copy_(self.integrate(action))
        self.age += 1
        done = self.finished()
        reward = torch.where(done, 0.0, 1.0)
        self.restart(done)
        return self.state.clone(), reward, done


def build(device):
    env = CartPoles(64, device)
    action = torch.randint(0, 2, (64,), device=device)
    return env.step, (action,)
