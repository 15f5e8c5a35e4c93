"""On-device rollouts: many point-mass tasks and a Gaussian actor advance in one captured step."""
from dataclasses import dataclass
from typing import List

import torch
from torch import nn


@dataclass
class RolloutSpec:
    envs: int = 32
    horizon: int = 24
    dt: float = 0.05
    damping: float = 0.1
    radius: float = 2.5
    gamma: float = 0.98


class PointMass:
    """Move a mass to a goal; an episode ends when it leaves the arena."""

    def __init__(self, spec, device):
        self.spec = spec
        self.device = device
        self.pos = torch.zeros(spec.envs, 2, device=device)
        self.vel = torch.zeros(spec.envs, 2, device=device)
        self.goal = torch.rand(spec.envs, 2, device=device) * 2 - 1
        self.reward = torch.zeros(spec.envs, device=device)
        self.done = torch.zeros(spec.envs, dtype=torch.bool, device=device)
        self.obs = torch.zeros(spec.envs, 6, device=device)

    def observe(self):
        torch.cat([self.pos, self.vel, self.goal - self.pos], 1, out=self.obs)
        return self.obs

    def advance(self, force):
        self.vel.mul_(1 - self.spec.damping).add_(force.clamp(-2, 2), alpha=self.spec.dt)
        self.pos.add_(self.vel, alpha=self.spec.dt)
        gap = (self.goal - self.pos).norm(dim=1)
        self.reward.copy_(-gap - 0.01 * force.square().sum(1))
        self.done.copy_(self.pos.norm(dim=1) > self.spec.radius)

    def respawn(self, ids):
        self.pos.index_fill_(0, ids, 0.0)
        self.vel.index_fill_(0, ids, 0.0)

    def new_goals(self):
        self.goal = torch.rand(self.spec.envs, 2, device=self.device) * 2 - 1


class Actor(nn.Module):
    def __init__(self, obs=6, act=2, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, width), nn.Tanh(), nn.Linear(width, act))
        self.log_std = nn.Parameter(torch.full((act,), -0.5))

    def forward(self, obs):
        mean = self.net(obs)
        std = self.log_std.exp()
        action = mean + std * torch.randn_like(mean)
        logp = -(((action - mean) / std).square() / 2 + self.log_std).sum(-1)
        return action, logp


@dataclass
class Transition:
    obs: torch.Tensor
    action: torch.Tensor
    logp: torch.Tensor
    reward: torch.Tensor


class Worker:
    def __init__(self, spec, device, seed=17):
        self.spec = spec
        self.seed = seed
        torch.manual_seed(seed)
        self.env = PointMass(spec, device)
        self.actor = Actor().to(device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _tick(self):
        obs = self.env.observe()
        action, logp = self.actor(obs)
        self.env.advance(action)
        return action, logp

    def _capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self._tick()
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.action, self.logp = self._tick()

    @torch.no_grad()
    def collect(self) -> List[Transition]:
        path = []
        self.env.new_goals()
        for _ in range(self.spec.horizon):
            torch.cuda.manual_seed(self.seed)
            self.graph.replay()
            path.append(Transition(self.env.obs, self.action.clone(), self.logp.clone(), self.env.reward.clone()))
            out = self.env.done.nonzero().squeeze(-1)
            self.env.respawn(out)
        return path


def returns(path, gamma):
    total, out = torch.zeros_like(path[-1].reward), []
    for tr in reversed(path):
        total = tr.reward + gamma * total
        out.append(total)
    return torch.stack(out[::-1])


def main():
    spec = RolloutSpec()
    with torch.no_grad():
        worker = Worker(spec, torch.device("cuda"))
    for epoch in range(3):
        path = worker.collect()
        g = returns(path, spec.gamma)
        weight = (g - g.mean()) / (g.std() + 1e-6)
        features = torch.stack([tr.obs for tr in path])
        print(epoch, float(g[0].mean()), float((weight.unsqueeze(-1) * features).mean()))


if __name__ == "__main__":
    main()
