"""Volume rendering with stratified depths: bounds are device tensors and samples are made by arithmetic with them."""

import torch

import graphsafe


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(27, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        self.register_buffer("bounds", torch.tensor([0.5, 2.5]))
        self.register_buffer("bands", 2.0 ** torch.arange(4))

    def forward(self, origin, direction, n=16):
        near, far = self.bounds.unbind()
        cell = (torch.arange(n, device=origin.device) + torch.rand(len(origin), n, device=origin.device)) / n
        depth = near + (far - near) * cell
        points = origin[:, None] + depth[..., None] * direction[:, None]
        waves = (points[..., None] * self.bands).flatten(-2)
        out = self.net(torch.cat([points, waves.sin(), waves.cos()], -1))
        density, colour = torch.relu(out[..., 0]), torch.sigmoid(out[..., 1:])
        alpha = -torch.expm1(-density * (far - near) / n)
        left = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
        return ((alpha * left)[..., None] * colour).sum(1)


def build(device):
    field = Field().to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 3))
        args[1].copy_(torch.nn.functional.normalize(torch.randn(6, 3), dim=-1))
        field.bounds[1].fill_(2.5 + 0.1 * (k % 5))

    args = (torch.randn(6, 3, device=device), torch.randn(6, 3, device=device))
    return graphsafe.Step(field, args, refresh=refresh)
