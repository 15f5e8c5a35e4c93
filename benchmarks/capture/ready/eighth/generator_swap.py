"""A diffusion step. Each request has a random stream of its own, whose state is swapped into the device's generator."""
import torch
from torch import nn

import graphsafe


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width))
        self.register_buffer("sigma", torch.tensor(0.7))

    def forward(self, x):
        noise = torch.randn_like(x)  # <-A
        return x - self.sigma * self.net(x) + 0.3 * self.sigma * noise


class Streams:
    def __init__(self, device):
        index = device.index or 0
        torch.cuda.init()
        self.generator = torch.cuda.default_generators[index]
        self.own = self.generator.graphsafe_get_state()
        request = torch.Generator(device=device)
        request.manual_seed(771)
        self.request = request.graphsafe_get_state()

    def select(self, k):
        self.generator.graphsafe_set_state(self.request if k % 6 == 5 else self.own)  # <-B


def build(device, batch=4, width=16):
    model = Denoiser(width).to(device).eval().requires_grad_(False)
    streams = Streams(device)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        streams.select(k)

    return graphsafe.Step(model, (x,), refresh=refresh)
