"""Actor loop: numpy environments on the host, a captured policy on the device."""
from __future__ import annotations

import copy
from typing import Protocol

import numpy as np
import torch
from torch import nn


class VecEnv(Protocol):
    def reset(self) -> np.ndarray: ...
    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class PointMass:
    def __init__(self, envs: int, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.envs = envs

    def reset(self) -> np.ndarray:
        self.state = self.rng.normal(size=(self.envs, 4)).astype(np.float32)
        return self.state

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.state[:, 2:] += 0.1 * np.clip(action, -1, 1)
        self.state[:, :2] += 0.1 * self.state[:, 2:]
        return self.state, -np.linalg.norm(self.state[:, :2], axis=1)


class GaussianPolicy(nn.Module):
    def __init__(self, obs: int, act: int, width: int = 64):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, act))
        self.log_std = nn.Parameter(torch.full((act,), -1.0))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        mean = self.mean(obs)
        if obs.is_cuda and torch.cuda.is_current_stream_capturing():
            return mean
        return mean + self.log_std.exp() * torch.randn_like(mean)


class Actor:
    def __init__(self, policy: GaussianPolicy, envs: int, obs: int, device):
        self.policy = policy
        self.host_obs = torch.zeros(envs, obs, pin_memory=True)
        self.obs = torch.zeros(envs, obs, device=device)
        self.graph = torch.cuda.CUDAGraph()

    @torch.no_grad()
    def compile(self) -> "Actor":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.policy(self.obs)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.action = self.policy(self.obs)
        return self

    def act(self, obs: np.ndarray) -> np.ndarray:
        self.host_obs.numpy()[...] = obs
        self.obs.copy_(self.host_obs, non_blocking=True)
        self.graph.replay()
        return self.action.cpu().numpy()

    def pull(self, learner: nn.Module) -> None:
        self.policy = copy.deepcopy(learner).eval()


class RandomSearch:
    """A stand-in learner that nudges its weights when the return improves."""

    def __init__(self, net: GaussianPolicy):
        self.net = net
        self.best = -np.inf

    @torch.no_grad()
    def learn(self, score: float) -> None:
        if score > self.best:
            self.best = score
            for p in self.net.parameters():
                p.add_(0.01 * torch.randn_like(p))


def rollout(actor: Actor, env: VecEnv, learner: RandomSearch, steps: int, sync_every: int = 16) -> float:
    obs, total = env.reset(), 0.0
    for t in range(steps):
        obs, reward = env.step(actor.act(obs))
        total += float(reward.mean())
        if t % sync_every == sync_every - 1:
            learner.learn(total)
            actor.pull(learner.net)
    return total


def main(device="cuda", envs: int = 16, steps: int = 64):
    torch.manual_seed(0)
    net = GaussianPolicy(4, 2).to(device)
    actor = Actor(copy.deepcopy(net).eval(), envs, 4, device).compile()
    return rollout(actor, PointMass(envs), RandomSearch(net), steps)


if __name__ == "__main__":
    print(main())
