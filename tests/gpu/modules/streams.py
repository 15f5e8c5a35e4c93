"""Work on other streams, and work that is not there."""

import torch
from torch import nn


class Unjoined(nn.Module):
    """Statistics on a side stream that the step's stream never waits for."""

    def __init__(self, device):
        super().__init__()
        self.side = torch.cuda.Stream(device)
        self.register_buffer("mean", torch.zeros(8, device=device))

    def forward(self, x):
        y = torch.tanh(x)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):  # guilty: unjoined GS603
            self.mean.copy_(x.mean(0))  # guilty: unjoined GS603
        return y


def build_unjoined(device):
    return Unjoined(device), (torch.randn(4, 8, device=device),)


class Unforked(nn.Module):
    """A second expert on a side stream that was not told to wait for the input."""

    def __init__(self, width, device):
        super().__init__()
        self.left, self.right = nn.Linear(width, width), nn.Linear(width, width)
        self.side = torch.cuda.Stream(device)

    @torch.no_grad()
    def forward(self, x):
        with torch.cuda.stream(self.side):  # guilty: unforked GS603|GS604
            right = self.right(x)  # guilty: unforked GS603|GS604
        left = self.left(x)
        torch.cuda.current_stream().wait_stream(self.side)  # guilty: unforked GS603|GS604
        return left + right


def build_unforked(device):
    return Unforked(8, device).to(device), (torch.randn(4, 8, device=device),)


class DefaultStreamStatistics(nn.Module):
    """Keeps a statistic on the default stream, where it is read from."""

    def __init__(self, device):
        super().__init__()
        self.register_buffer("peak", torch.zeros(8, device=device))

    def forward(self, x):
        default = torch.cuda.default_stream(x.device)
        with torch.cuda.stream(default):  # guilty: default_stream GS604|GS603
            self.peak.copy_(x.abs().amax(0))  # guilty: default_stream GS604|GS603
        return x * 2


def build_default_stream(device):
    return DefaultStreamStatistics(device), (torch.randn(4, 8, device=device),)


class JoinedDefault(nn.Module):
    """Forked to the default stream and joined again: the default stream cannot be part of a capture."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x):
        current, default = torch.cuda.current_stream(x.device), torch.cuda.default_stream(x.device)
        default.wait_stream(current)  # guilty: joined_default GS604|GS603
        with torch.cuda.stream(default):  # guilty: joined_default GS604|GS603
            y = self.layer(x)  # guilty: joined_default GS604|GS603
        current.wait_stream(default)
        return y


def build_joined_default(device):
    return JoinedDefault(8).to(device), (torch.randn(4, 8, device=device),)


class Prefetched(nn.Module):
    """Uses what a side stream made in the step before, after waiting for its event."""

    def __init__(self, device):
        super().__init__()
        self.side = torch.cuda.Stream(device)
        self.done = torch.cuda.Event()
        self.register_buffer("ready", torch.zeros(4, 8, device=device))
        with torch.cuda.stream(self.side):
            self.ready.fill_(0.5)
            self.done.record()

    def forward(self, x):
        current = torch.cuda.current_stream()
        current.wait_event(self.done)  # guilty: prefetched GS603|GS604
        y = x + self.ready
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            self.ready.copy_(x * 0.5)
            self.done.record()
        return y


def build_prefetched(device):
    return Prefetched(device), (torch.randn(4, 8, device=device),)


class HeadsView(nn.Module):
    """Splits heads; every operation is a view, and a graph of it is empty."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):  # guilty: heads_view GS602
        q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).unbind(-3)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def build_heads_view(device):
    return HeadsView(2), (torch.randn(2, 6, 48, device=device),)
