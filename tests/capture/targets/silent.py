"""Steps that capture without an error and replay wrongly, or whose proof would be worth nothing."""

import torch
from torch import nn


class HostCounter(nn.Module):
    """The position is a Python number: a graph writes to the same row for ever."""

    def __init__(self, device):
        super().__init__()
        self.register_buffer("cache", torch.zeros(64, 8, device=device))
        self.position = 0

    def forward(self, x):
        self.cache[self.position : self.position + 1].copy_(x)
        self.position += 1
        return self.cache.sum(0)


class DeviceCounter(nn.Module):
    """The same with the position on the device."""

    def __init__(self, device):
        super().__init__()
        self.register_buffer("cache", torch.zeros(64, 8, device=device))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64, device=device))

    def forward(self, x):
        self.cache.index_copy_(0, self.position, x)
        self.position.add_(1)
        return self.cache.sum(0)


class Rebound(nn.Module):
    """A running mean in a tensor that every step replaces."""

    def __init__(self, device):
        super().__init__()
        self.mean = torch.zeros(8, device=device)

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean


class Plan(nn.Module):
    """The first step's inputs decide how every later step works."""

    def __init__(self, device):
        super().__init__()
        self.offsets = None

    def forward(self, x, lengths):
        if self.offsets is None:
            self.offsets = torch.cumsum(lengths, 0)
        return x * self.offsets.unsqueeze(1) + lengths.unsqueeze(1)


class FirstShape(nn.Module):
    """Lazy too, but from the shape alone: harmless."""

    def __init__(self, device):
        super().__init__()
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.tril(torch.ones(x.shape[0], x.shape[0], device=x.device))
        return self.mask @ x


def host_counter(device):
    return HostCounter(device), (torch.randn(1, 8, device=device),)


def device_counter(device):
    return DeviceCounter(device), (torch.randn(1, 8, device=device),)


def rebound(device):
    return Rebound(device), (torch.randn(4, 8, device=device),)


def plan(device):
    return Plan(device), (torch.randn(4, 8, device=device), torch.tensor([7, 3, 9, 7], device=device))


def first_shape(device):
    return FirstShape(device), (torch.randn(4, 8, device=device),)


def capture_branch(device):
    def step(x):
        return x * 3 if torch.cuda.is_current_stream_capturing() else x * 2

    return step, (torch.randn(4, 8, device=device),)


def constant_inputs(device):
    return (lambda x: x * 2), (torch.ones(4, 8, device=device),)


def ignores_inputs(device):
    weight = torch.randn(4, device=device)
    return (lambda x: weight * 2), (torch.randn(4, 8, device=device),)


def nothing_on_the_device(device):
    return (lambda x: x.view(8, 4)), (torch.randn(4, 8, device=device),)


def unstable(device):
    def step(x):
        import time

        return x * (time.perf_counter_ns() % 1000)

    return step, (torch.randn(4, 8, device=device),)


def unseeded(device):
    import os

    weight = torch.frombuffer(bytearray(os.urandom(32)), dtype=torch.uint8).float().to(device)
    return (lambda x: x * weight), (torch.randn(4, 32, device=device),)


def dropout(device):
    return (lambda x: torch.nn.functional.dropout(x, 0.5)), (torch.randn(4, 64, device=device),)


def host_random(device):
    import random

    return (lambda x: x * random.random()), (torch.randn(4, 64, device=device),)


def private_generator(device):
    generator = torch.Generator(device=device)

    def step(x):
        return x + torch.empty_like(x).normal_(generator=generator)

    return step, (torch.randn(4, 64, device=device),)


def bad_integers(device):
    """New indices would be out of range: the largest seen is not the largest that is valid for every element."""
    table = torch.randn(16, 8, device=device)

    def step(x, index):
        if not torch.cuda.is_current_stream_capturing() and not bool((index[1:] > 0).all()):
            raise IndexError("index 0 is reserved")
        return table.index_select(0, index) + x

    return step, (torch.randn(3, 8, device=device), torch.tensor([2, 2, 5], device=device))
