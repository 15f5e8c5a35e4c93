from dataclasses import dataclass

import torch
import torch.nn.functional as F

from .experts import ExpertBank, LoadStats, SharedExpert
from .routing import Router


@dataclass(frozen=True)
class MoeConfig:
    dim: int = 32
    hidden: int = 48
    experts: int = 6
    top_k: int = 2
    layers: int = 2


class MoeLayer:
    def __init__(self, cfg, device):
        self.norm = torch.ones(cfg.dim, device=device)
        self.router = Router(cfg.dim, cfg.experts, cfg.top_k, device)
        self.bank = ExpertBank(cfg.experts, cfg.dim, cfg.hidden, device)
        self.shared = SharedExpert(cfg.dim, cfg.hidden, device)
        self.stats = LoadStats(cfg.experts, device)

    def __call__(self, x):
        h = F.rms_norm(x, (x.shape[-1],), self.norm)
        self.shared.launch(h)
        plan = self.router.assign(h)
        self.stats.update(plan.counts)
        routed = plan.scatter(self.bank.run(plan.gather(h), plan.counts), x.shape[0])
        return x + routed + self.shared.collect()


class MoeStack:
    def __init__(self, cfg, device):
        self.layers = [MoeLayer(cfg, device) for _ in range(cfg.layers)]

    @torch.inference_mode()
    def step(self, x):
        for layer in self.layers:
            x = layer(x)
        return x, torch.stack([layer.stats.ema for layer in self.layers])
