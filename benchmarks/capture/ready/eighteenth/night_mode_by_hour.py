"""A camera's denoiser is stronger at night: faulty, the step looks at the hour on the host."""
from datetime import datetime

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, image):
        is_night = not 6 <= datetime.now().hour < 22
        return image - self.conv(image) * (0.9 if is_night else 0.4)


def build(device):
    return Denoiser().to(device).requires_grad_(False), (torch.rand(1, 1, 12, 12, device=device),)
