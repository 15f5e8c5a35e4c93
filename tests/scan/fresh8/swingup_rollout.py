"""Collects pendulum rollouts where policy and physics are one recorded graph."""
from __future__ import annotations

import math
import random
import time

import torch
from torch import nn


class Swing:
    """Pendulums on the device; all state is updated in place."""

    def __init__(self, count: int, device: torch.device, horizon: int = 200):
        self.angle = torch.zeros(count, device=device)
        self.speed = torch.zeros(count, device=device)
        self.age = torch.zeros(count, dtype=torch.int64, device=device)
        self.reward = torch.zeros(count, device=device)
        self.ended = torch.zeros(count, dtype=torch.bool, device=device)
        self.horizon = horizon
        self.episodes = torch.zeros((), dtype=torch.int64, device=device)

    def look(self) -> torch.Tensor:
        return torch.stack([self.angle.cos(), self.angle.sin(), self.speed], dim=-1)

    def push(self, torque: torch.Tensor, dt: float = 0.05) -> None:
        wrapped = torch.remainder(self.angle + math.pi, 2 * math.pi) - math.pi
        self.reward.copy_(-(wrapped.square() + 0.1 * self.speed.square() + 0.001 * torque.square()))
        self.speed.add_(15.0 * self.angle.sin() + 3.0 * torque, alpha=dt).clamp_(-8, 8)
        self.angle.add_(self.speed, alpha=dt)
        self.age.add_(1)
        torch.ge(self.age, self.horizon, out=self.ended)
        self.episodes.add_(self.ended.sum())
        fresh = torch.rand_like(self.angle) * 2 * math.pi
        self.angle.copy_(torch.where(self.ended, fresh, self.angle))
        self.speed.masked_fill_(self.ended, 0.0)
        self.age.masked_fill_(self.ended, 0)


class Collector:
    def __init__(self, policy: nn.Module, env: Swing, length: int, device: torch.device):
        self.policy = policy
        self.env = env
        self.length = length
        count = env.angle.shape[0]
        self.row = torch.zeros(1, dtype=torch.int64, device=device)
        self.book_obs = torch.zeros(length, count, 3, device=device)
        self.book_reward = torch.zeros(length, count, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self._prepare(torch.cuda.Stream(device))

    def _move(self) -> None:
        obs = self.env.look()
        torque = 2 * torch.tanh(self.policy(obs).squeeze(-1) + 0.1 * torch.randn_like(self.env.angle))
        self.book_obs.index_copy_(0, self.row, obs[None])
        self.env.push(torque)
        self.book_reward.index_copy_(0, self.row, self.env.reward[None])
        self.row.add_(1).remainder_(self.length)

    @torch.no_grad()
    def _prepare(self, side: torch.cuda.Stream) -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._move()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph, stream=side):
            self._move()
        self.row.zero_()

    def collect(self) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(self.length):
            self.graph.replay()
        return self.book_obs, self.book_reward


def train(rounds: int = 50) -> None:
    random.seed(0)
    torch.manual_seed(random.randrange(2 ** 31))
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    policy = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    collector = Collector(policy, Swing(512, device), 64, device)
    began = time.monotonic()
    for i in range(rounds):
        obs, reward = collector.collect()
        weight = torch.softmax(reward.sum(0), dim=0)
        loss = (weight * policy(obs).squeeze(-1).square().mean(0)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 10 == 9:
            print(i, reward.mean().item(), collector.env.episodes.item(), f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    train()
