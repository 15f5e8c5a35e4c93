"""A complete optimisation step, offered as one callable."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class TrainConfig:
    width: int = 32
    lr: float = 2e-3
    weight_decay: float = 0.01
    clip: float = 1.0


class Regressor(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.mean = nn.Linear(width, 1)
        self.log_var = nn.Linear(width, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h).squeeze(-1), self.log_var(h).squeeze(-1).clamp(-5, 5)


def split_decay(model: nn.Module, weight_decay: float):
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def make_optimizer(model: nn.Module, cfg: TrainConfig) -> torch.optim.Optimizer:
    return torch.optim.AdamW(split_decay(model, cfg.weight_decay), lr=cfg.lr, betas=(0.9, 0.95))


class TrainStep:
    def __init__(self, model: nn.Module, cfg: TrainConfig):
        self.model, self.cfg = model, cfg
        self.optimizer = make_optimizer(model, cfg)

    def clip(self):
        grads = [p.grad for p in self.model.parameters()]
        total = torch.stack([g.norm() for g in grads]).norm()
        factor = (self.cfg.clip / (total + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.mul_(factor)

    def __call__(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        mean, log_var = self.model(x)
        loss = F.gaussian_nll_loss(mean, y, log_var.exp())
        loss.backward()
        self.clip()
        self.optimizer.step()
        return loss.detach()


def build(device):
    torch.manual_seed(31)
    cfg = TrainConfig()
    step = TrainStep(Regressor(cfg.width).to(device), cfg)
    return step, (torch.randn(16, 10, device=device), torch.randn(16, device=device))


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    for _ in range(3):
        print(fn(*args).item())
