"""Collects experience with the policy's forward in a CUDA graph."""
import numpy as np
import torch

from .envs import Chase
from .policy import Actor


class Experience:
    def __init__(self, horizon: int, count: int, device: torch.device):
        self.obs = torch.zeros(horizon, count, 6, device=device)
        self.action = torch.zeros(horizon, count, 2, device=device)
        self.logp = torch.zeros(horizon, count, device=device)
        self.reward = torch.zeros(horizon, count, device=device)
        self.worth: list[torch.Tensor] = []

    def write(self, t: int, obs, action, logp) -> None:
        self.obs[t].copy_(obs)
        self.action[t].copy_(action)
        self.logp[t].copy_(logp)

    def advantages(self, gamma: float = 0.99) -> torch.Tensor:
        worth = torch.stack(self.worth)
        total = torch.zeros_like(self.reward)
        running = torch.zeros_like(self.reward[0])
        for t in reversed(range(self.reward.shape[0])):
            running = self.reward[t] + gamma * running
            total[t].copy_(running)
        return total - worth


class Collector:
    def __init__(self, actor: Actor, env: Chase, device: torch.device, seed: int = 0):
        self.actor = actor
        self.env = env
        self.device = device
        self.np_rng = np.random.default_rng(seed)
        self.obs = torch.zeros(env.count, 6, device=device)
        self._record()

    @torch.no_grad()
    def _record(self) -> None:
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.actor.explore(self.obs)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.tape = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.tape, stream=side):
            self.action, self.logp, self.worth = self.actor.explore(self.obs)

    @torch.no_grad()
    def gather(self, horizon: int) -> Experience:
        book = Experience(horizon, self.env.count, self.device)
        for t in range(horizon):
            drift = self.np_rng.normal(0, 0.01, (self.env.count, 2)).astype(np.float32)
            self.env.goal.add_(torch.from_numpy(drift).to(self.device))
            self.env.observe(self.obs)
            self.tape.replay()
            book.write(t, self.obs, self.action, self.logp)
            book.worth.append(self.worth)
            reward, over = self.env.apply(self.action)
            book.reward[t].copy_(reward)
            if over.any():
                self.env.restart(over)
        return book
