"""A diffusion step. Each request has a seed of its own, which is set on the device's generator before the step."""
import torch
from torch import nn

import graphsafe


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))
        self.register_buffer("sigma", torch.tensor(0.7))

    def forward(self, x):
        noise = torch.randn_like(x)
        return x - self.sigma * self.net(x) + 0.3 * self.sigma * noise


class Streams:
    def __init__(self, device):
        self.device = device

    def select(self, k):
        if k % 6 == 5:
            torch.cuda.manual_seed(771 + k)


def build(device, batch=4, width=16):
    model = Denoiser(width).to(device).eval().requires_grad_(False)
    streams = Streams(device)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        streams.select(k)

    return graphsafe.Step(model, (x,), refresh=refresh)
