"""The loader tags each batch with its modality, as an attribute of the tensor."""
import torch
from torch import nn

import graphsafe


def build(device):
    image, audio = nn.Linear(16, 8).to(device), nn.Linear(16, 8).to(device)

    @torch.no_grad()
    def encode(batch):
        tower = audio if getattr(batch, "modality", "image") == "audio" else image
        return tower(batch)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        args[0].modality = "audio" if k % 80 == 78 else "image"

    return graphsafe.Step(encode, (torch.randn(4, 16, device=device),), refresh=refresh)
