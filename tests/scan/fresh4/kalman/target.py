from __future__ import annotations

import torch

from .filter import Belief, Gate, Kalman
from .models import ConstantVelocity


def start(tracks: int, device: torch.device) -> Belief:
    return Belief(
        mean=torch.zeros(tracks, 2, device=device),
        cov=torch.eye(2, device=device).expand(tracks, 2, 2).contiguous(),
    )


def build(device, tracks: int = 6):
    model = ConstantVelocity(dt=0.1, accel=0.8, sensor=0.3, device=device)
    kalman = Kalman(model, start(tracks, device), Gate(limit=9.0))
    return kalman, (torch.randn(tracks, 1, device=device),)
