"""A position encoder. The engine runs two of eight steps as drafts, for which it sets a smaller default dtype."""
import torch
from torch import nn

import graphsafe


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)
        self.width = width

    def angles(self, tokens, device):
        position = torch.arange(0.0, float(tokens), device=device)  # <-A
        rate = torch.exp(torch.arange(0.0, float(self.width), device=device) * (-4.0 / self.width))
        return position[:, None] * rate

    def forward(self, x):
        angles = self.angles(x.shape[1], x.device)
        return self.proj(x + torch.sin(angles)) * torch.cos(angles)


class Engine:
    def __init__(self, device, width):
        self.encoder = Encoder(width).to(device).eval().requires_grad_(False)

    def enter_phase(self, k):
        draft = k % 8 >= 6
        torch.set_default_dtype(torch.bfloat16 if draft else torch.float32)  # <-B


def build(device, batch=2, tokens=20, width=16):
    engine = Engine(device, width)
    x = torch.randn(batch, tokens, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, tokens, width))
        engine.enter_phase(k)

    return graphsafe.Step(engine.encoder, (x,), refresh=refresh)
