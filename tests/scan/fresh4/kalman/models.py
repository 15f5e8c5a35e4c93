from __future__ import annotations

import torch


class ConstantVelocity:
    """Position and velocity on a line; the position is measured."""

    def __init__(self, dt: float, accel: float, sensor: float, device: torch.device):
        self.dt, self.accel, self.sensor = dt, accel, sensor
        self.device = device
        self.transition = torch.tensor([[1.0, dt], [0.0, 1.0]], device=device)
        self.measure = torch.tensor([[1.0, 0.0]], device=device)

    @property
    def process_noise(self) -> torch.Tensor:
        dt, q = self.dt, self.accel ** 2
        rows = [[dt ** 4 / 4, dt ** 3 / 2], [dt ** 3 / 2, dt ** 2]]
        return q * torch.tensor(rows, device=self.device)

    @property
    def sensor_noise(self) -> torch.Tensor:
        return torch.eye(1, device=self.device) * self.sensor ** 2
