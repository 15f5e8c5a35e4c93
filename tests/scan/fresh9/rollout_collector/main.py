"""Collect rollouts of a policy that runs as a graph."""

from dataclasses import dataclass, field
from typing import List

import torch
from torch import nn


@dataclass
class Rollout:
    states: List[torch.Tensor] = field(default_factory=list)
    values: List[torch.Tensor] = field(default_factory=list)

    def add(self, state, value):
        self.states.append(state)
        self.values.append(value)

    def stacked(self):
        return torch.stack(self.states), torch.stack(self.values)


class Critic(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, state):
        return self.body(state).squeeze(-1)


class GraphedCritic:
    def __init__(self, critic, example):
        self._in = example.clone()
        stream = torch.cuda.Stream(example.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            critic(self._in)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self._graph, stream=stream):
            self._out = critic(self._in)

    def __call__(self, state):
        self._in.copy_(state)
        self._graph.replay()
        return self._out


class Collector:
    def __init__(self, critic, device):
        self.state = torch.zeros(4, 3, device=device)
        self.critic = GraphedCritic(critic, self.state)

    def collect(self, steps):
        rollout = Rollout()
        for _ in range(steps):
            self.state = self.state + 0.1 * torch.randn_like(self.state)
            value = self.critic(self.state)
            rollout.add(self.state, value)
        return rollout.stacked()


def main():
    device = torch.device("cuda")
    collector = Collector(Critic(3).to(device), device)
    for _ in range(2):
        states, values = collector.collect(5)
        print(tuple(states.shape), tuple(values.shape))


if __name__ == "__main__":
    main()
