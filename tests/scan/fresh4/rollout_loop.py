"""Collect trajectories with a captured actor and an eager vector environment."""
from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch
from torch import nn


class Pendulums:
    def __init__(self, count: int, device: str):
        self.count, self.device = count, device
        self.state = torch.zeros(count, 2, device=device)
        self.reset(torch.ones(count, dtype=torch.bool, device=device))

    def reset(self, which: torch.Tensor) -> None:
        fresh = torch.empty_like(self.state).uniform_(-0.5, 0.5)
        self.state.copy_(torch.where(which.unsqueeze(-1), fresh, self.state))

    def step(self, action: torch.Tensor):
        angle, speed = self.state.unbind(-1)
        speed = speed + 0.05 * (action - 1.0) * 2.0 + 0.05 * 9.8 * angle.sin()
        angle = angle + 0.05 * speed
        self.state.copy_(torch.stack([angle, speed], dim=-1))
        fallen = angle.abs() > 1.2
        return self.state.clone(), 1.0 - angle.abs(), fallen


class Explore:
    """Epsilon-greedy with one coin for the whole batch."""

    def __init__(self, epsilon: float, actions: int):
        self.epsilon, self.actions = epsilon, actions

    def __call__(self, q: torch.Tensor) -> torch.Tensor:
        greedy = q.argmax(-1)
        if random.random() < self.epsilon:
            return torch.randint_like(greedy, self.actions)
        return greedy


@dataclass
class Trajectory:
    obs: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    rewards: list = field(default_factory=list)

    def add(self, obs, action, reward):
        self.obs.append(obs)
        self.actions.append(action)
        self.rewards.append(reward)


class Actor:
    def __init__(self, net: nn.Module, policy: Explore, obs: torch.Tensor):
        self.net, self.policy = net, policy
        self.obs = obs.clone()
        self.action = None
        self.graph = torch.cuda.CUDAGraph()

    def forward(self) -> torch.Tensor:
        return self.policy(self.net(self.obs))

    @torch.no_grad()
    def capture(self) -> "Actor":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.forward()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.action = self.forward()
        return self


def collect(actor: Actor, env: Pendulums, steps: int) -> Trajectory:
    path = Trajectory()
    for _ in range(steps):
        actor.graph.replay()
        obs, reward, fallen = env.step(actor.action)
        path.add(obs, actor.action, reward)
        if fallen.any():
            env.reset(fallen)
        actor.obs = obs
    return path


def main() -> None:
    device = "cuda"
    env = Pendulums(256, device)
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 3)).to(device)
    actor = Actor(net, Explore(0.1, actions=3), env.state).capture()
    path = collect(actor, env, steps=128)
    print(len(path.actions))


if __name__ == "__main__":
    main()
