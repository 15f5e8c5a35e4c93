"""Vectorised cart environment and policy in a single graph, plus a rollout loop."""
import math

import torch
from torch import nn


class Carts:
    def __init__(self, n, device):
        self.state = torch.zeros(n, 4, device=device)
        self.age = torch.zeros(n, device=device)

    def step(self, push):
        x, v, a, w = self.state.unbind(-1)
        w = w + 0.05 * (9.8 * torch.sin(a) - push * torch.cos(a))
        v = v + 0.05 * push
        nxt = torch.stack((x + 0.05 * v, v, a + 0.05 * w, w), dim=-1)
        self.age.add_(1)
        over = (nxt[:, 2].abs() > math.pi / 4) | (self.age > 60)
        nxt = torch.where(over.unsqueeze(1), 0.02 * torch.randn_like(nxt), nxt)
        self.age.masked_fill_(over, 0.0)
        self.state.copy_(nxt)
        return over


class Worker:
    def __init__(self, device, n=16):
        self.envs = Carts(n, device)
        self.policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
        self.epsilon = 0.5
        self.obs = torch.zeros(n, 4, device=device)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                self._tick()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream), torch.no_grad():
            self.action, self.over = self._tick()

    def _tick(self):
        self.obs.copy_(self.envs.state)
        mean = self.policy(self.obs).squeeze(-1)
        action = mean + self.epsilon * torch.randn_like(mean)
        return action, self.envs.step(action)

    def rollout(self, steps, seed):
        storage, resets = [], 0
        for _ in range(steps):
            torch.manual_seed(seed)
            self.graph.replay()
            storage.append((self.obs, self.action.clone()))
            if self.over.any():
                resets += 1
        return storage, resets

    def anneal(self):
        self.epsilon = max(0.05, self.epsilon * 0.8)


def main(device="cuda"):
    torch.manual_seed(2)
    worker = Worker(torch.device(device))
    for epoch in range(4):
        storage, resets = worker.rollout(12, seed=100 + epoch)
        worker.anneal()
        batch = torch.stack([o for o, _ in storage])
        print(epoch, tuple(batch.shape), resets)


if __name__ == "__main__":
    main()
