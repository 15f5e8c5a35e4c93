"""Pieces of a small inference server: one instance per shape bucket, and decoding loops with memory."""
import functools
import math
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn

_TABLES = {}
_ARENA = []


def taper(name, size, device):
    have = _TABLES.get((name, device))
    if have is None or have.numel() < size:
        have = _TABLES[name, device] = torch.hann_window(size, periodic=False, device=device) + 0.05
    return have[:size]


def arena(rows, width, device):
    if not _ARENA or _ARENA[0].shape[0] < rows:
        _ARENA[:] = [torch.zeros(rows, width, device=device)]
    return _ARENA[0]


@functools.cache
def lookback(width):
    return {}


class SpectrumFrontEnd(nn.Module):
    def __init__(self, frame, device):
        super().__init__()
        self.window = taper("front", frame, device)
        self.proj = nn.Linear(frame // 2 + 1, 6, device=device)

    @torch.no_grad()
    def forward(self, wave):
        return self.proj(torch.fft.rfft(wave * self.window).abs())


def build_spectrum_front_end(device, frame=32):
    return SpectrumFrontEnd(frame, device), (torch.randn(3, frame, device=device),)


@functools.lru_cache(maxsize=None)
def sized_taper(size, device):
    return torch.hann_window(size, periodic=False, device=device) + 0.05


class SizedFrontEnd(nn.Module):
    def __init__(self, frame, device):
        super().__init__()
        self.window = sized_taper(frame, device)
        self.proj = nn.Linear(frame // 2 + 1, 6, device=device)

    @torch.no_grad()
    def forward(self, wave):
        return self.proj(torch.fft.rfft(wave * self.window).abs())


def build_sized_front_end(device, frame=32):
    return SizedFrontEnd(frame, device), (torch.randn(3, frame, device=device),)


class ExpertPool:
    """Gathers the experts' rows in the arena and averages them over the batch."""

    def __init__(self, batch, device, trim):
        self.batch, self.trim = batch, trim
        self.up = torch.randn(20, 24, device=device) / 4
        self.rows = arena(batch, 24, device)

    @torch.no_grad()
    def __call__(self, x):
        self.rows[: self.batch].copy_(F.gelu(x @ self.up))
        rows = self.rows[: self.batch] if self.trim else self.rows
        return rows.sum(0) / self.batch


def build_expert_pool(device, batch=4):
    return ExpertPool(batch, device, False), (torch.randn(batch, 20, device=device),)


def build_expert_pool_trimmed(device, batch=4):
    return ExpertPool(batch, device, True), (torch.randn(batch, 20, device=device),)


class ChunkedMax:
    """Pools tokens chunk by chunk; the chunk length comes from the planner."""

    def __init__(self, tokens, width, device):
        plan = lookback(width)
        self.chunk = plan.setdefault("chunk", max(1, int(math.sqrt(tokens))))
        self.mix = torch.randn(width, width, device=device) / math.sqrt(width)

    @torch.no_grad()
    def __call__(self, x):
        parts = [part.amax(0) for part in (x @ self.mix).split(self.chunk)]
        return torch.stack(parts).mean(0)


def build_chunked_max(device, tokens=9):
    return ChunkedMax(tokens, 16, device), (torch.randn(tokens, 16, device=device),)


class PackedSoftmax(nn.Module):
    norm = None

    def __init__(self, batch, device):
        super().__init__()
        if PackedSoftmax.norm is None:
            PackedSoftmax.norm = batch ** -0.5
        self.head = nn.Linear(10, 14, device=device)

    @torch.no_grad()
    def forward(self, x):
        return (self.head(x) * (10 * self.norm)).softmax(-1).mean(0)


def build_packed_softmax(device, batch=2):
    return PackedSoftmax(batch, device), (torch.randn(batch, 10, device=device),)


class PrefixAttention(nn.Module):
    """Causal attention whose mask is a corner of the largest one built so far."""

    masks = {}

    def __init__(self, length, device):
        super().__init__()
        have = self.masks.get(device)
        if have is None or have.shape[0] < length:
            have = self.masks[device] = torch.full((length, length), -1e9, device=device).triu(1)
        self.mask = have[:length, :length]
        self.qkv = nn.Linear(12, 36, device=device)

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.T / math.sqrt(12) + self.mask).softmax(-1) @ v


def build_prefix_attention(device, length=6):
    return PrefixAttention(length, device), (torch.randn(length, 12, device=device),)


class JoinedCache(nn.Module):
    """One decoding step against every key and value seen so far."""

    def __init__(self, device):
        super().__init__()
        self.qkv = nn.Linear(16, 48, device=device)
        self.past = torch.zeros(2, 1, 16, device=device)

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.past = torch.cat((self.past, torch.stack((k, v))), 1)
        return (q @ self.past[0].T / 4).softmax(-1) @ self.past[1]


def build_joined_cache(device):
    return JoinedCache(device), (torch.randn(1, 16, device=device),)


class RingCache(nn.Module):
    """The same step on a ring of 24 slots."""

    def __init__(self, device):
        super().__init__()
        self.qkv = nn.Linear(16, 48, device=device)
        self.register_buffer("past", torch.zeros(2, 24, 16, device=device))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long, device=device))
        self.register_buffer("slots", torch.arange(24, device=device))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long, device=device))

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.past.index_copy_(1, self.at, torch.stack((k, v)))
        self.seen.add_(1).clamp_(max=24)
        self.at.add_(1).remainder_(24)
        logits = (q @ self.past[0].T / 4).masked_fill(self.slots >= self.seen, float("-inf"))
        return logits.softmax(-1) @ self.past[1]


def build_ring_cache(device):
    return RingCache(device), (torch.randn(1, 16, device=device),)


class DiversityBias(nn.Module):
    """Pushes the distribution away from the mean of the latest ones."""

    def __init__(self, device):
        super().__init__()
        self.head = nn.Linear(8, 20, device=device)
        self.trace = []

    @torch.no_grad()
    def forward(self, h):
        probs = self.head(h).softmax(-1)
        self.trace.append(probs)
        latest = torch.stack(self.trace[-16:]).mean(0)
        return (probs.log() - latest.log()).softmax(-1)


def build_diversity_bias(device):
    return DiversityBias(device), (torch.randn(4, 8, device=device),)


class TracedStack(nn.Module):
    """Keeps a record of the shapes that went through and a list of hidden layers within a call."""

    def __init__(self, device):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(10, 10, device=device) for _ in range(4))
        self.shapes, self.calls = [], Counter()

    @torch.no_grad()
    def forward(self, x):
        hidden = []
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            hidden.append(x)
            self.calls[i] += 1
            self.shapes.append((i, tuple(x.shape), str(x.dtype)))
        return torch.stack(hidden).amax(0)


def build_traced_stack(device):
    return TracedStack(device), (torch.randn(5, 10, device=device),)
