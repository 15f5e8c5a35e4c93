"""A controller runs twice a second and trusts its camera less in fog: sound, the trust is a tensor."""
import time

import torch
from torch import nn

import graphsafe


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.camera, self.radar = nn.Linear(6, 3), nn.Linear(4, 3)
        self.register_buffer("trust", torch.tensor(0.8))

    def forward(self, image, echo):
        return self.trust * self.camera(image) + (1 - self.trust) * self.radar(echo)


def build(device):
    fusion = Fusion().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        time.sleep(0.5)
        for one in args:
            one.copy_(torch.randn(one.shape))
        fusion.trust.fill_(0.2 if 120 <= k < 160 else 0.8)

    return graphsafe.Step(fusion, (torch.randn(2, 6, device=device), torch.randn(2, 4, device=device)), refresh=refresh)
