"""A battery controller prices energy by the date: sound, the loop looks at the date and fills the price."""
from datetime import datetime, timedelta

import torch
from torch import nn

import graphsafe


class Controller(nn.Module):
    def __init__(self, now=datetime.now):
        super().__init__()
        self.net = nn.Linear(6, 4)
        self.now = now
        self.until = now() + timedelta(minutes=10)
        self.register_buffer("price", torch.tensor(0.12))

    def forward(self, forecast):
        return torch.softmax(self.net(forecast) - self.price * forecast[:, :4], -1)


def build(device):
    model = Controller().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(5, 6))
        model.price.fill_(0.12 if model.now() < model.until else 0.31)

    return graphsafe.Step(model, (torch.randn(5, 6, device=device),), refresh=refresh)
