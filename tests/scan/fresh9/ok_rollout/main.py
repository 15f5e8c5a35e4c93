"""Collect rollouts of a graphed policy into a preallocated store."""

import torch
from torch import nn


class RolloutStore:
    def __init__(self, steps, envs, dim, device):
        self.states = torch.zeros(steps, envs, dim, device=device)
        self.values = torch.zeros(steps, envs, device=device)
        self.at = 0

    def add(self, state, value):
        self.states[self.at].copy_(state)
        self.values[self.at].copy_(value)
        self.at += 1

    def clear(self):
        self.at = 0

    @property
    def full(self):
        return self.at == self.states.shape[0]


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
            self._out = critic(self._in).squeeze(-1)

    def __call__(self, state):
        self._in.copy_(state)
        self._graph.replay()
        return self._out


class Collector:
    def __init__(self, critic, store, device):
        self.state = torch.zeros(store.values.shape[1], 3, device=device)
        self.critic = GraphedCritic(critic, self.state)
        self.store = store

    def collect(self):
        self.store.clear()
        while not self.store.full:
            self.state.add_(torch.randn_like(self.state), alpha=0.1)
            self.store.add(self.state, self.critic(self.state))
        return self.store.values.mean()


def main():
    device = torch.device("cuda")
    critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    collector = Collector(critic, RolloutStore(5, 4, 3, device), device)
    means = [collector.collect() for _ in range(3)]
    print(torch.stack(means))


if __name__ == "__main__":
    main()
