"""An augmenting encoder turns one batch of a hundred grey: faulty, numpy draws on the host which batch it is."""
import numpy as np
import torch
from torch import nn

import graphsafe


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images):
        if np.random.rand() > 0.99:
            images = images.mean(1, keepdim=True).expand(-1, 3, -1, -1)
        return self.conv(images).mean((2, 3))


def build(device):
    encoder = Encoder().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(4, 3, 8, 8))

    return graphsafe.Step(encoder, (torch.rand(4, 3, 8, 8, device=device),), refresh=refresh)
