"""A camera's denoiser is stronger at night: sound, the loop looks at the hour and fills a tensor."""
from datetime import datetime

import torch
from torch import nn

import graphsafe


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
        self.register_buffer("strength", torch.tensor(0.4))

    def forward(self, image):
        return image - self.conv(image) * self.strength


def build(device):
    model = Denoiser().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(1, 1, 12, 12))
        model.strength.fill_(0.4 if 6 <= datetime.now().hour < 22 else 0.9)

    return graphsafe.Step(model, (torch.rand(1, 1, 12, 12, device=device),), refresh=refresh)
