"""A battery controller prices energy by the date: faulty, the step calls a stored datetime.now."""
from datetime import datetime, timedelta

import torch
from torch import nn


class Controller(nn.Module):
    def __init__(self, now=datetime.now):
        super().__init__()
        self.net = nn.Linear(6, 4)
        self.now = now
        self.until = now() + timedelta(minutes=10)

    def forward(self, forecast):
        price = 0.12 if self.now() < self.until else 0.31
        return torch.softmax(self.net(forecast) - price * forecast[:, :4], -1)


def build(device):
    return Controller().to(device).requires_grad_(False), (torch.randn(5, 6, device=device),)
