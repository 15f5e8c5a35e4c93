"""Denoising auto-encoder; loss, backward and update in one step."""

import torch
import torch.nn.functional as F
from torch import nn

from .optim import DeviceAdamW


class AutoEncoder(nn.Module):
    def __init__(self, width: int, code: int):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, code))
        self.decode = nn.Sequential(nn.Linear(code, 24), nn.GELU(), nn.Linear(24, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decode(self.encode(x))


def make_step(model: nn.Module, optimizer: DeviceAdamW, noise: float, clip: float):
    average = torch.zeros((), device=optimizer.params[0].device)

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss = F.mse_loss(model(x + noise * torch.randn_like(x)), x)
        grads = torch.autograd.grad(loss, optimizer.params)
        total = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        scale = (clip / (total + 1e-6)).clamp(max=1.0)
        optimizer.apply([g * scale for g in grads])
        average.lerp_(loss.detach(), 0.05)
        return loss.detach(), average

    return step


def build(device):
    torch.manual_seed(3)
    model = AutoEncoder(12, 4).to(device)
    optimizer = DeviceAdamW(model.parameters(), lr=1e-2)
    return make_step(model, optimizer, noise=0.1, clip=1.0), (torch.randn(20, 12, device=device),)
