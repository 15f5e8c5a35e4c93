import functools

import torch
from torch import nn


def inverse_frequencies(dim, base=100.0):
    return 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def dynamic_update(rope_forward):
    """Longer sequences than seen so far get new frequencies."""

    @functools.wraps(rope_forward)
    def wrapper(self, x, position_ids):
        seq_len = torch.max(position_ids) + 1
        if seq_len > self.max_seq_len_cached:  # guilty: dynamic_rope GS102
            self.register_buffer("inv_freq", self.original * 0.5, persistent=False)
            self.max_seq_len_cached = 10**6
        return rope_forward(self, x, position_ids)

    return wrapper


class Rotary(nn.Module):
    def __init__(self, dim, max_positions=8):
        super().__init__()
        self.max_seq_len_cached = max_positions
        self.register_buffer("inv_freq", inverse_frequencies(dim), persistent=False)
        self.original = self.inv_freq

    def angles(self, position_ids):
        return position_ids[:, None].float() * self.inv_freq

    def forward(self, x, position_ids):
        angles = self.angles(position_ids)
        return rotate(x, angles.cos(), angles.sin())


class DynamicRotary(Rotary):
    @dynamic_update
    def forward(self, x, position_ids):
        angles = self.angles(position_ids)
        return rotate(x, angles.cos(), angles.sin())


class CountingRotary(Rotary):
    """Knows itself how many tokens it has seen, and lengthens its table as needed."""

    def __init__(self, dim):
        super().__init__(dim)
        self._n = self._seen = 0
        self._cos = self._sin = None

    def _lengthen(self, n, like):
        angles = torch.arange(n, device=like.device)[:, None] * self.inv_freq
        self._n, self._cos, self._sin = n, angles.cos(), angles.sin()  # guilty: counting_rope GS402|GS703

    def forward(self, x):
        self._seen += x.shape[0]  # guilty: counting_rope GS702
        if self._seen > self._n:  # guilty: counting_rope GS702|GS402
            self._lengthen(self._seen + 16, x)
        here = slice(self._seen - x.shape[0], self._seen)
        return rotate(x, self._cos[here], self._sin[here])  # guilty: counting_rope GS702


class StaticRotary(nn.Module):
    """All positions, made at construction."""

    # quiet: static_rope
    def __init__(self, dim, max_positions=64):
        super().__init__()
        angles = torch.arange(max_positions)[:, None] * inverse_frequencies(dim)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    # quiet: static_rope
    def forward(self, x, position_ids):
        return rotate(x, self.cos[position_ids], self.sin[position_ids])


class ShapeCachedRotary(Rotary):
    """One table a length; the first step of a length makes it."""

    # quiet: rope_by_length
    def _table(self, n, like):
        try:
            return self._tables[n]
        except AttributeError:
            self._tables = {}
        except KeyError:
            pass
        angles = torch.arange(n, device=like.device)[:, None] * self.inv_freq
        return self._tables.setdefault(n, (angles.cos(), angles.sin()))

    # quiet: rope_by_length
    def forward(self, x):
        self._table(x.shape[0], x)
        return rotate(x, *self._table(x.shape[0], x))


class LogitScale(nn.Module):
    """Scales by the spread of the first batch."""

    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, dim)

    def _spread(self, x):
        try:
            return self._cached_spread
        except AttributeError:
            self._cached_spread = x.std(0, keepdim=True) + 1e-3  # guilty: first_spread GS701
            return self._cached_spread

    def forward(self, x):
        return self.proj(x) / self._spread(x)
