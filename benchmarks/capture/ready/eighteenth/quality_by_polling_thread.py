"""A renderer's exposure follows a setting that a thread polls: faulty, the step uses the thread's float."""
import threading
import time

import torch
from torch import nn


class Settings:
    """Polls the settings of the stage every ten seconds."""

    def __init__(self, rows=(1.0, 0.6, 1.4)):
        self.rows, self.exposure = rows, rows[0]
        threading.Thread(target=self.poll, daemon=True).start()

    def poll(self):
        at = 0
        while True:
            time.sleep(10.0)
            at += 1
            self.exposure = self.rows[at % len(self.rows)]


class Renderer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 3))
        self.settings = Settings()

    def forward(self, rays):
        return torch.sigmoid(self.net(rays)) * self.settings.exposure


def build(device):
    return Renderer().to(device).requires_grad_(False), (torch.randn(32, 5, device=device),)
