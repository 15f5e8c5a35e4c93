"""Antithetic diffusion: every second step rewinds the device's random numbers and turns the noise round."""
import torch
from torch import nn

import graphsafe


class Sampler(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width)).to(device)
        self.sign = torch.ones((), device=device)
        self.drop = nn.Dropout(0.2)
        self.train()

    def forward(self, x):
        noise = torch.randn_like(x) * self.sign
        return x - 0.1 * self.net(self.drop(x)) + 0.3 * noise


class Rewinder:
    def __init__(self, model, device):
        self.model, self.device, self.state = model, device, None

    def before(self, k):
        if k % 2 == 0 or self.state is None:
            self.state = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()
            self.model.sign.fill_(1.0)
        else:
            if self.device.type == "cuda":
                torch.cuda.set_rng_state(self.state, self.device)
            else:
                torch.set_rng_state(self.state)
            self.model.sign.fill_(-1.0)


def build(device, batch=4, width=12):
    model = Sampler(width, device).requires_grad_(False)
    rewinder = Rewinder(model, device)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.linspace(-1.0, 1.0, batch * width).view(batch, width) * (1 + k // 2 % 5))
        rewinder.before(k)

    return graphsafe.Step(model, (x,), refresh=refresh)
