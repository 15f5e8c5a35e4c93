"""Constant-velocity motion models for a bank of radar tracks."""

from dataclasses import dataclass

import torch


@dataclass
class LinearModel:
    transition: torch.Tensor
    process: torch.Tensor
    observe: torch.Tensor
    noise: torch.Tensor

    @property
    def order(self) -> int:
        return self.transition.shape[0]


def constant_velocity(axes: int, dt: float, device, q: float = 0.05, r: float = 0.4) -> LinearModel:
    eye = torch.eye(axes, device=device)
    zero = torch.zeros(axes, axes, device=device)
    transition = torch.cat([torch.cat([eye, dt * eye], 1), torch.cat([zero, eye], 1)], 0)
    observe = torch.cat([eye, zero], 1)
    process = q * torch.eye(2 * axes, device=device)
    return LinearModel(transition, process, observe, r * eye)
