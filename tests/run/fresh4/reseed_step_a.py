"""Rollout collection: a Gaussian policy whose exploration noise is part of its graph."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    seed: int = 123
    envs: int = 32
    obs: int = 16
    act: int = 4
    horizon: int = 50


class GaussianPolicy(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(cfg.obs, 64), nn.Tanh(), nn.Linear(64, cfg.act))
        self.log_std = nn.Parameter(torch.full((cfg.act,), -0.5))

    def forward(self, obs):
        mu = self.mu(obs)
        return mu + self.log_std.exp() * torch.randn_like(mu)


class Collector:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.policy = GaussianPolicy(cfg).to(device)
        self.obs = torch.zeros(cfg.envs, cfg.obs, device=device)
        self.drift = torch.randn(cfg.act, cfg.obs, device=device) * 0.1
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.policy(self.obs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.action = self.policy(self.obs)

    def reset(self):
        self.obs.zero_()
        self.rewards = torch.zeros(self.cfg.envs, device=self.obs.device)

    def act(self):
        torch.manual_seed(self.cfg.seed)
        self.graph.replay()
        return self.action

    def env_step(self, action):
        self.obs.mul_(0.95).add_(torch.tanh(action) @ self.drift)
        self.rewards -= self.obs.square().mean(-1)

    def rollout(self):
        self.reset()
        actions = torch.empty(self.cfg.horizon, self.cfg.envs, self.cfg.act, device=self.obs.device)
        for t in range(self.cfg.horizon):
            action = self.act()
            actions[t].copy_(action)
            self.env_step(action)
        return actions


@torch.no_grad()
def main():
    device = torch.device("cuda")
    cfg = Config()
    torch.manual_seed(cfg.seed)
    collector = Collector(cfg, device)
    actions = collector.rollout()
    spread = (actions[1:] - actions[:-1]).std()
    print(f"reward {collector.rewards.mean().item():.4f}, step-to-step spread {spread.item():.4f}")


if __name__ == "__main__":
    main()
