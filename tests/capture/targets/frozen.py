"""Steps in which Python decides something else from step to step, and a few that only look so."""

import itertools
import random
import time

import torch
from torch import nn


def inputs(device):
    return (torch.randn(8, 16, device=device),)


class BornCounting(nn.Module):
    """The count is born in the first step, and scales what follows."""

    def __init__(self):
        super().__init__()
        self.count = None

    def forward(self, x):
        self.count = 1 if self.count is None else self.count + 1
        return x * self.count


def born_counting(device):
    return BornCounting(), inputs(device)


def drawn_on_the_host(device):
    def step(x):
        noise = torch.rand(1)
        return x * float(noise)

    return step, inputs(device)


def counter_in_a_dict(device):
    group = {"step": 0, "lr": 0.5}

    def step(x):
        group["step"] += 1
        return x * (group["lr"] / group["step"])

    return step, inputs(device)


class Shrinking(nn.Module):
    """Copies one row less each step. All rows of the input are alike, so no comparison of values shows it."""

    def __init__(self, device):
        super().__init__()
        self.register_buffer("slots", torch.zeros(64, 16, device=device))
        self.left = 60

    def forward(self, x, ones):
        self.left -= 1
        self.slots[: self.left].copy_(ones[: self.left])
        return x + self.slots[:8]


def shrinking(device):
    return Shrinking(device), (*inputs(device), torch.ones(64, 16, device=device))


class Cooling(nn.Module):
    """Halves from the fifth step on. The first of all captures, the fourth step, is the last that does not."""

    def __init__(self, device):
        super().__init__()
        self.linear = nn.Linear(16, 16, device=device).requires_grad_(False)
        self.calls, self.steps = 0, 0

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        out = self.linear(x)
        if self.steps > 4:
            out = out / 2
        return torch.softmax(out / 0.8, -1)


def cooling(device):
    return Cooling(device), inputs(device)


class PingPong(nn.Module):
    """Two buffers that change places every step."""

    def __init__(self, device):
        super().__init__()
        self.front = torch.zeros(8, 16, device=device)
        self.back = torch.zeros(8, 16, device=device)

    def forward(self, x):
        self.back.copy_(x + self.front)
        self.front, self.back = self.back, self.front
        return self.front * 2


def ping_pong(device):
    return PingPong(device), inputs(device)


class Decayed(nn.Module):
    """A weight that is given other memory behind its name."""

    def __init__(self, device):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 16, device=device), requires_grad=False)

    def forward(self, x):
        y = x @ self.weight
        self.weight.data = self.weight.data * 0.9
        return y


def decayed(device):
    return Decayed(device), inputs(device)


def clock(device):
    started = time.monotonic()

    def step(x):
        age = time.monotonic() - started
        return x * age

    return step, inputs(device)


def private_random(device):
    source = random.Random(5)

    def step(x):
        keep = source.random()
        return x * keep

    return step, inputs(device)


def every_fourth(device):
    turns = itertools.count()

    def step(x):
        if next(turns) % 4 == 3:
            x = x + 1
        return x * 2

    return step, inputs(device)


class Idle(nn.Module):
    """Counts its steps, for a log that nobody reads while it runs."""

    def __init__(self):
        super().__init__()
        self.steps = 0
        self.seconds = 0.0

    def forward(self, x):
        self.steps += 1
        self.seconds = time.monotonic()
        return x * 2


def idle_counter(device):
    return Idle(), inputs(device)


def offsets(device):
    """Sums of ragged rows by offsets, which are an input in order."""

    def step(x, starts):
        sums = torch.cumsum(x.sum(1), 0)
        padded = torch.cat([torch.zeros_like(sums[:1]), sums])
        return padded.index_select(0, starts[1:]) - padded.index_select(0, starts[:-1])

    return step, (*inputs(device), torch.tensor([0, 2, 5, 8], device=device))


def atomics(device):
    index = torch.randint(0, 16, (4096,), device=device)

    def step(x):
        rows = x.flatten().repeat(32)
        return torch.zeros(16, device=device).index_add_(0, index, rows)

    return step, inputs(device)


def shuffled(device):
    layers = [nn.Linear(16, 16).to(device) for _ in range(3)]

    def step(x):
        random.shuffle(layers)
        for layer in layers:
            x = torch.tanh(layer(x))
        return x

    return step, inputs(device)


class PingPongBesideADraw(PingPong):
    """The draw changes nothing."""

    def forward(self, x):
        random.random()
        return super().forward(x)


def ping_pong_beside_a_draw(device):
    return PingPongBesideADraw(device), inputs(device)
