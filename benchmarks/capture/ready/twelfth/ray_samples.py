"""Volume rendering: the samples between near and far come from linspace with the scene's bounds."""

import torch

import graphsafe


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        self.register_buffer("near", torch.tensor(0.5))
        self.register_buffer("far", torch.tensor(2.5))

    def forward(self, origin, direction):
        depth = torch.linspace(self.near, self.far, 24, device=origin.device)
        points = origin[:, None] + depth[:, None] * direction[:, None]
        out = self.net(points)
        density, colour = torch.relu(out[..., 0]), torch.sigmoid(out[..., 1:])
        alpha = 1 - torch.exp(-density * (self.far - self.near) / 24)
        left = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
        return ((alpha * left)[..., None] * colour).sum(1)


def build(device):
    field = Field().to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 3))
        args[1].copy_(torch.nn.functional.normalize(torch.randn(6, 3), dim=-1))
        field.far.fill_(2.5 + 0.1 * (k % 5))

    args = (torch.randn(6, 3, device=device), torch.randn(6, 3, device=device))
    return graphsafe.Step(field, args, refresh=refresh)
