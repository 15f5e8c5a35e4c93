"""Vectorised rollouts: the policy is replayed as a graph, the environment runs eagerly on the same device."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn as nn


class PendulumBatch:
    def __init__(self, n: int, device: torch.device):
        self.state = torch.randn(n, 3, device=device)
        self.age = torch.zeros(n, device=device)

    def step(self, action: torch.Tensor):
        angle, speed, load = self.state.unbind(-1)
        speed = speed + 0.05 * (torch.sin(angle) + action.squeeze(-1) - 0.1 * load)
        angle = angle + 0.05 * speed
        self.state = torch.stack((angle, speed, load), dim=-1)
        self.age = self.age + 1
        reward = -(angle.square() + 0.1 * speed.square())
        return self.state, reward, self.age >= 5

    def reset_rows(self, rows: list[int]):
        for r in rows:
            self.state[r] = 0.1 * self.state[r]
            self.age[r] = self.age[r] * 0.0


class ActorCritic(nn.Module):
    def __init__(self, obs: int = 3, width: int = 32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, width), nn.Tanh())
        self.actor = nn.Linear(width, 1)
        self.critic = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return torch.tanh(self.actor(h)), self.critic(h).squeeze(-1)


@dataclass
class Rollout:
    obs: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    values: list = field(default_factory=list)
    rewards: list = field(default_factory=list)

    def add(self, obs, action, value, reward):
        self.obs.append(obs.clone())
        self.actions.append(action.clone())
        self.values.append(value)
        self.rewards.append(reward)

    def returns(self, bootstrap, gamma=0.97):
        out, running = [], bootstrap
        for r in reversed(self.rewards):
            running = r + gamma * running
            out.append(running)
        return torch.stack(out[::-1])


class GraphedPolicy:
    def __init__(self, net: ActorCritic, n: int, device: torch.device):
        self.net, self.obs = net, torch.zeros(n, 3, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad():
            with torch.cuda.stream(stream):
                net(self.obs)
            torch.cuda.current_stream(device).wait_stream(stream)
            with torch.cuda.graph(self.graph, stream=stream):
                self.action, self.value = net(self.obs)

    def __call__(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.action, self.value


def collect(env: PendulumBatch, policy: GraphedPolicy, horizon: int) -> Rollout:
    rollout = Rollout()
    obs = env.state
    for _ in range(horizon):
        action, value = policy(obs)
        nxt, reward, done = env.step(action)
        rollout.add(obs, action, value, reward)
        finished = done.cpu().numpy().nonzero()[0].tolist()
        env.reset_rows(finished)
        obs = nxt
    return rollout


def main(device="cuda"):
    torch.manual_seed(5)
    device = torch.device(device)
    env = PendulumBatch(6, device)
    policy = GraphedPolicy(ActorCritic().to(device), 6, device)
    rollout = collect(env, policy, horizon=8)
    values = torch.stack(rollout.values)
    returns = rollout.returns(torch.zeros(6, device=device))
    return {"advantage": returns - values, "actions": torch.stack(rollout.actions)}


if __name__ == "__main__":
    print(main()["advantage"].mean().item())
