"""The same small step in every form that a target may have."""

import torch
from torch import nn

from graphsafe import Step


class Scale(nn.Module):
    def __init__(self, device="cpu", width=8):
        super().__init__()
        self.linear = nn.Linear(width, width, device=device)
        self.register_buffer("count", torch.zeros(1, device=device))

    def forward(self, x):
        self.count.add_(1)
        return torch.relu(self.linear(x)) * self.count


def with_args(device):
    return Scale(device).requires_grad_(False), (torch.randn(4, 8, device=device),)


def with_kwargs(device):
    return Scale(device).requires_grad_(False), (), {"x": torch.randn(4, 8, device=device)}


def with_example_inputs(device):
    module = Scale(device).requires_grad_(False)
    module.example_inputs = (torch.randn(4, 8, device=device),)
    return module


def module_alone(device):
    return Scale(device).requires_grad_(False)


def with_step(device):
    module = Scale(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(args[0].shape))

    return Step(module, (torch.randn(4, 8, device=device),), refresh=refresh, reset=lambda: module.count.zero_())


def with_generator(device):
    generator = torch.Generator(device)

    def refresh(args, kwargs, k):
        args[0].normal_(generator=generator)

    return Step(Scale(device).requires_grad_(False), (torch.randn(4, 8, device=device),), refresh=refresh)


def without_device():
    return Scale("cuda").requires_grad_(False), (torch.randn(4, 8, device="cuda"),)


def with_axes(device, batch=2, width=8):
    return Scale(device, width).requires_grad_(False), (torch.randn(batch, width, device=device),)
