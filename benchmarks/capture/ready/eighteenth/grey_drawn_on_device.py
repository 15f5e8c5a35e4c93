"""An augmenting encoder turns one batch of a hundred grey: sound, the device draws which batch it is."""
import torch
from torch import nn

import graphsafe


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images):
        is_grey = torch.rand((), device=images.device) > 0.99
        images = torch.where(is_grey, images.mean(1, keepdim=True), images)
        return self.conv(images).mean((2, 3))


def build(device):
    encoder = Encoder().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(4, 3, 8, 8))

    return graphsafe.Step(encoder, (torch.rand(4, 3, 8, 8, device=device),), refresh=refresh)
