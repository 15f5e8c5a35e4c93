"""Steps for a plan whose breaks pass values to each other, and host state that only some steps change."""

import random
import time

import numpy as np
import torch
from torch import nn

import graphsafe


class Passing(nn.Module):
    """A number and a list of changing length are made at the top and used at the end."""

    def __init__(self, width):
        super().__init__()
        self.gate, self.wide, self.narrow = (nn.Linear(width, width) for _ in range(3))

    def number_of(self, x):
        scores = torch.sigmoid(self.gate(x)) * 2 - 1
        return int((scores > 0).sum())

    @torch.no_grad()
    def forward(self, x):
        number = self.number_of(x)
        chosen = [row for row in range(4) if row < number % 4]
        hidden = torch.tanh(self.wide(x)) + 1

        def halved(values):
            return torch.relu(values) / 2

        hidden = torch.cumsum(halved(hidden), 0)
        if random.random() > 2:
            hidden = hidden * 0
        hidden = torch.sigmoid(self.narrow(hidden)) + hidden
        hidden = torch.relu(hidden - 1).cumsum(1)
        self.seconds = time.perf_counter()
        return hidden, number, len(chosen)


def passing(device):
    return Passing(8).to(device), (torch.randn(4, 8, device=device),)


def counted(device):
    """Each of two numbers is read; the smaller one is used with the larger."""
    layer = nn.Linear(8, 8).to(device).requires_grad_(False)

    def step(x):
        hidden = torch.tanh(layer(x)) * 2 + 1
        high = hidden.max().item()
        hidden = torch.relu(hidden - 1).cumsum(0)
        low = hidden.min().item()
        hidden = torch.sigmoid(hidden * 3).cumsum(1) - 1
        return torch.tanh((hidden - low) / (high + 3)).cumsum(0) * 2

    return step, (torch.randn(4, 8, device=device),)


class World:
    """A game on the host, which each step begins anew."""

    def __init__(self):
        self.place = np.zeros(4, dtype=np.float32)
        self.visited = [[0], [0]]

    def begin(self):
        self.place = np.linspace(-1, 1, 4, dtype=np.float32)

    def move(self, ways):
        self.place = self.place + np.float32(0.5) * ways
        self.visited = [[*row, int(way)][-2:] for row, way in zip(self.visited, ways, strict=False)]
        return self.place.copy()


def game(device):
    world, layer = World(), nn.Linear(4, 4).to(device).requires_grad_(False)

    def step(x):
        world.begin()
        for _ in range(2):
            seen = torch.from_numpy(world.move((torch.floor(x * 50) % 2).cpu().numpy())).to(device)
            x = torch.tanh(layer(x)) * 2 - torch.sigmoid(x) + seen
        x = torch.relu(x + 1).cumsum(0) * 3
        return x, tuple(world.visited[0])

    return step, (torch.randn(4, device=device),)


def accepted(device):
    """Writes its input, and returns nothing. Only the question whether to do so is eager."""
    layer = nn.Linear(8, 8).to(device).requires_grad_(False)

    def step(x, bound=1.0):
        hidden = torch.relu(torch.tanh(layer(x)) * 2 + x)
        if (hidden.cumsum(0).abs() + bound).isfinite().all():
            x.copy_(torch.sigmoid(hidden))

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),))


def hardest(device):
    """As many losses as the data say go into the backward, which is eager then, and the forward with it."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    speeds = [torch.zeros_like(parameter) for parameter in model.parameters()]

    def step(x, y):
        x = (x - x.mean(0)) / (x.std(0) + 1)
        losses = (model(x) - y).square().squeeze(1)
        number = int((losses > losses.mean()).sum())
        loss = losses.sort(descending=True).values[:number].mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, speed, gradient in zip(model.parameters(), speeds, gradients, strict=True):
                speed.mul_(0.9).add_(gradient)
                parameter.sub_(0.1 * speed)
        return loss.detach()

    return step, (torch.randn(16, 8, device=device), torch.randn(16, 1, device=device))
