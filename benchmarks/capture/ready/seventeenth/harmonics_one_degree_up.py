"""Colours of Gaussian splats by spherical harmonics, a degree more now and then: faulty, a host int cuts them."""
import torch

import graphsafe


def basis(direction):
    x, y, z = torch.nn.functional.normalize(direction, dim=-1).unbind(-1)
    second = (x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y)
    return torch.stack([torch.ones_like(x), y, z, x, *second], -1)


class Splats(torch.nn.Module):
    max_degree = 2

    def __init__(self, count=7):
        super().__init__()
        self.coefficients = torch.nn.Parameter(0.3 * torch.randn(count, 9, 3))
        self.degree = 0
        self.register_buffer("mask", torch.zeros(9))
        self.mask[:1] = 1

    def one_degree_up(self):
        self.degree = min(self.degree + 1, self.max_degree)
        self.mask[: (self.degree + 1) ** 2] = 1

    def forward(self, directions):
        used = (self.degree + 1) ** 2
        terms = basis(directions)[:, :used, None] * self.coefficients[:, :used]
        return torch.sigmoid(terms.sum(1))


def build(device):
    splats = Splats().to(device)
    optimizer = torch.optim.SGD(splats.parameters(), lr=0.5)

    def step(directions, colours):
        loss = (splats(directions) - colours).abs().mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(7, 3))
        args[1].copy_(torch.sigmoid(2 * args[0]))
        if k in (25, 50):
            splats.one_degree_up()

    return graphsafe.Step(step, (torch.randn(7, 3, device=device), torch.rand(7, 3, device=device)), refresh=refresh)
