"""Steps whose trouble shows only after many replays."""

import torch
from torch import nn

import graphsafe


class Scaled(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.table = torch.linspace(1, 2, 8, device=device)
        self.kept = []

    def forward(self, x):
        return torch.relu(x) * self.table


def stepped(device, refresh):
    module = Scaled(device)

    def fill(args, kwargs, k):
        torch.manual_seed(k)
        args[0].copy_(torch.randn(8))
        refresh(module, k)

    return graphsafe.Step(module, (torch.ones(8, device=device),), {}, refresh=fill)


def sound(device):
    return stepped(device, lambda module, k: None)


def cycling(device):
    """Without a refresh: the same inputs come back."""
    return Scaled(device).requires_grad_(False), (torch.linspace(0, 1, 8, device=device),)


def leaking(device):
    """Every refresh keeps a tensor of the device."""
    return stepped(device, lambda module, k: module.kept.append(torch.zeros(1024, device=device)))


def settling(device):
    """Keeps the last eight."""

    def keep(module, k):
        module.kept = [*module.kept[-7:], torch.zeros(1024, device=device)]

    return stepped(device, keep)


def replaced(device):
    """From the twentieth replay on there is another table, at another address."""

    def replace(module, k):
        if k == 20:
            module.table = module.table + 1

    return stepped(device, replace)


def dangling(device):
    """The same values, at another address; the table that the graph reads is nobody's any more."""

    def move(module, k):
        if k == 20:
            module.table = module.table.clone()

    return stepped(device, move)


def failing(device):
    def fail(module, k):
        if k == 30:
            raise IndexError("no batch of this number")

    return stepped(device, fail)


def slower(device):
    """From the twentieth replay on, a smaller rate trains the weights. The step returns its loss only."""
    model = torch.nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8))
        optimizer.param_groups[0]["lr"] = 0.1 if k < 20 else 0.01

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)
