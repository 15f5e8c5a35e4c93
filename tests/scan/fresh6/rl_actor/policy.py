"""Gaussian policy kept as plain tensors, so that a learner can ship them cheaply."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class PolicyConfig:
    n_obs: int = 24
    n_act: int = 6
    width: int = 128
    sigma: float = 0.2


class Policy:
    names = ("w_in", "b_in", "w_mid", "b_mid", "w_out", "b_out")

    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.weights = {}
        sizes = [(cfg.n_obs, cfg.width), (cfg.width, cfg.width), (cfg.width, cfg.n_act)]
        for tag, (a, b) in zip(("in", "mid", "out"), sizes):
            self.weights[f"w_{tag}"] = torch.randn(a, b, device=device) / a**0.5
            self.weights[f"b_{tag}"] = torch.zeros(b, device=device)

    def mean(self, obs):
        w = self.weights
        h = torch.tanh(obs @ w["w_in"] + w["b_in"])
        h = torch.tanh(h @ w["w_mid"] + w["b_mid"])
        return h @ w["w_out"] + w["b_out"]

    def act(self, obs, explore):
        mu = self.mean(obs)
        if explore:
            mu = mu + self.cfg.sigma * torch.randn_like(mu)
        return mu.clamp(-1.0, 1.0)
