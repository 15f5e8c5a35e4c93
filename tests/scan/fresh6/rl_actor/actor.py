"""The acting loop: one graph for each number of environments."""
from dataclasses import dataclass, field

import torch


@dataclass
class Entry:
    graph: torch.cuda.CUDAGraph
    obs: torch.Tensor
    action: torch.Tensor


@dataclass
class Stats:
    effort: list = field(default_factory=list)

    def add(self, action):
        self.effort.append(action.square().mean().item())


class Actor:
    def __init__(self, policy, mailbox):
        self.policy = policy
        self.mailbox = mailbox
        self.entries = {}
        self.stats = Stats()
        self.pool = None

    @torch.no_grad()
    def _capture(self, n, explore):
        obs = torch.zeros(n, self.policy.cfg.n_obs, device=self.policy.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.policy.act(obs, explore)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            action = self.policy.act(obs, explore)
        self.pool = self.pool or graph.pool()
        return Entry(graph, obs, action)

    def act(self, obs, explore=True):
        key = obs.shape[0]
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = self._capture(obs.shape[0], explore)
        entry.obs.copy_(obs)
        entry.graph.replay()
        self.stats.add(entry.action)
        return entry.action.clone()

    def rollout(self, env, steps, explore=True):
        obs = env.reset()
        batch = []
        for _ in range(steps):
            self.mailbox.collect(self.policy)
            action = self.act(obs, explore)
            nxt, reward = env.step(action)
            batch.append((obs, action, reward))
            obs = nxt
        return batch

    def evaluate(self, env, steps):
        total = torch.zeros((), device=self.policy.device)
        for _, _, reward in self.rollout(env, steps, explore=False):
            total += reward.mean()
        return total / steps
