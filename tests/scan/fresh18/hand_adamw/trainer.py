"""Regression trainer whose whole step runs on the device."""

import torch
import torch.nn.functional as F
from torch import nn

from .optim import AdamConfig, FlatAdamW


class Trainer:
    def __init__(self, model: nn.Module, config: AdamConfig, clip: float = 1.0):
        self.model = model
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = FlatAdamW(self.params, config)
        self.clip = clip

    def clipped(self, grads):
        norms = torch._foreach_norm(grads)
        total = torch.stack(norms).norm()
        scale = (self.clip / (total + 1e-6)).clamp(max=1.0)
        return [g * scale for g in grads], total

    def step(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss = F.smooth_l1_loss(self.model(x), y)
        grads, norm = self.clipped(torch.autograd.grad(loss, self.params))
        self.optimizer.apply(grads)
        return loss.detach(), norm


def build(device):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 4)).to(device)
    trainer = Trainer(model, AdamConfig())
    x = torch.randn(16, 8, device=device)
    y = torch.randn(16, 4, device=device)
    return trainer.step, (x, y)
