"""Steps of several buckets that share a model, as engines do: what they may share, and what they must not."""

import functools

import torch
from torch import nn

WIDTH = 8


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 16)
        self.down = nn.Linear(16, WIDTH)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


@functools.cache
def model(kind, device):
    torch.manual_seed(0)
    return kind().to(device)


def rows(batch, device):
    torch.manual_seed(batch)
    return torch.randn(batch, WIDTH, device=device)


def one_model(device, batch=2):
    return model(Mlp, device), (rows(batch, device),)


def own_models(device, batch=2):
    torch.manual_seed(0)
    return Mlp().to(device), (rows(batch, device),)


class StaticOutput(Mlp):
    """Gives a view of one buffer, whatever the batch."""

    def __init__(self):
        super().__init__()
        self.register_buffer("out", torch.zeros(64, WIDTH))

    def forward(self, x):
        out = self.out[: x.shape[0]]
        out.copy_(super().forward(x))
        return out


def static_output(device, batch=2):
    return model(StaticOutput, device), (rows(batch, device),)


class PlannedForBatch(Mlp):
    """Plans anew when the batch changes, in one buffer: after warm-up the plan is not in the graph."""

    def __init__(self):
        super().__init__()
        self.register_buffer("plan", torch.zeros(1))
        self.planned_for = 0

    def forward(self, x):
        if self.planned_for != x.shape[0]:
            self.planned_for = x.shape[0]
            self.plan.fill_(float(x.shape[0]))
        return super().forward(x) / self.plan


def planned_for_batch(device, batch=2):
    return model(PlannedForBatch, device), (rows(batch, device),)


class Running(Mlp):
    """A sum over all steps, of all buckets: shared by design."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(WIDTH))

    def forward(self, x):
        self.total.add_(x[0])
        return super().forward(x) + self.total


def running(device, batch=2):
    return model(Running, device), (rows(batch, device),)


def batch_mean(device, batch=2):
    return (lambda x: x - x.mean(0)), (rows(batch, device),)


class Masked(nn.Module):
    """A mean over the requests that have tokens."""

    def forward(self, x, lengths):
        there = (lengths > 0).unsqueeze(1)
        kept = torch.where(there, x, 0.0)
        return x - kept.sum(0) / there.sum().clamp(min=1)


def masked_mean(device, batch=2):
    return Masked(), (rows(batch, device), torch.arange(batch, device=device) % 5 + 1)


class MultipliedMask(nn.Module):
    """The mask is multiplied, so that NaN gets through it."""

    def forward(self, x, lengths):
        there = (lengths > 0).unsqueeze(1).to(x.dtype)
        return x - (x * there).sum(0) / there.sum().clamp(min=1)


def multiplied_mask(device, batch=2):
    return MultipliedMask(), (rows(batch, device), torch.arange(batch, device=device) % 5 + 1)


class Cache(nn.Module):
    """Each request writes one slot of a cache, and reads it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(32, WIDTH))

    def forward(self, x, slots):
        self.keys.index_copy_(0, slots, x)
        return torch.tanh(self.keys[slots]) + x


def cache_slots(device, batch=2):
    return Cache().to(device), (rows(batch, device), torch.arange(batch, device=device))
