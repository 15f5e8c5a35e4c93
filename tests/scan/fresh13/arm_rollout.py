"""Collects experience from a batch of simulated arms with the policy and the physics in one graph."""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn

ARMS, JOINTS = 48, 3


class Arms:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.angle = torch.zeros(ARMS, JOINTS, device="cuda")
        self.speed = torch.zeros(ARMS, JOINTS, device="cuda")
        self.age = torch.zeros(ARMS, device="cuda")
        self.goal = torch.zeros(ARMS, 2, device="cuda")

    def tip(self):
        reach = self.angle.cumsum(1)
        return torch.stack([reach.cos().sum(1), reach.sin().sum(1)], 1)

    def observe(self):
        return torch.cat([self.angle.sin(), self.angle.cos(), self.speed, self.goal - self.tip()], 1)

    def advance(self, torque, dt=0.05):
        friction = 0.1 + 0.02 * self.rng.normal()
        self.speed.add_(torque - friction * self.speed, alpha=dt)
        self.angle.add_(self.speed, alpha=dt)
        self.age.add_(1)
        distance = (self.goal - self.tip()).norm(dim=1)
        return -distance, (distance < 0.1) | (self.age > 60)

    def reset(self, which):
        self.angle.masked_fill_(which.unsqueeze(1), 0.0)
        self.speed.masked_fill_(which.unsqueeze(1), 0.0)
        self.age.masked_fill_(which, 0.0)


@dataclass
class Curriculum:
    """Moves the goals further away as training goes on."""

    radius: float = 0.5
    growth: float = 0.25

    def next_goals(self, arms):
        turn = torch.rand(ARMS, device="cuda") * 2 * torch.pi
        arms.goal = self.radius * torch.stack([turn.cos(), turn.sin()], 1)
        self.radius = min(self.radius + self.growth, 2.5)


@dataclass
class Rollout:
    observed: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    rewards: list = field(default_factory=list)

    def add(self, observed, action, reward):
        self.observed.append(observed)
        self.actions.append(action.clone())
        self.rewards.append(reward.clone())

    def tensors(self):
        return torch.stack(self.observed), torch.stack(self.actions), torch.stack(self.rewards)


class Collector:
    def __init__(self, policy, arms):
        self.policy = policy
        self.arms = arms

    def once(self):
        observed = self.arms.observe()
        mean = self.policy(observed)
        action = mean + 0.1 * torch.randn_like(mean)
        reward, done = self.arms.advance(action)
        return observed, action, reward, done

    @torch.no_grad()
    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.once()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.observed, self.action, self.reward, self.done = self.once()

    def collect(self, steps):
        rollout = Rollout()
        for _ in range(steps):
            self.graph.replay()
            rollout.add(self.observed, self.action, self.reward)
            if self.done.any():
                self.arms.reset(self.done)
        return rollout.tensors()


def main():
    torch.manual_seed(31)
    policy = nn.Sequential(nn.Linear(3 * JOINTS + 2, 64), nn.Tanh(), nn.Linear(64, JOINTS)).cuda()
    arms, curriculum = Arms(), Curriculum()
    collector = Collector(policy, arms)
    collector.record()
    optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
    for _ in range(5):
        curriculum.next_goals(arms)
        observed, actions, rewards = collector.collect(25)
        weight = (rewards - rewards.mean()).unsqueeze(-1)
        loss = (weight * (policy(observed) - actions).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(policy.state_dict(), "policy.pt")


if __name__ == "__main__":
    main()
