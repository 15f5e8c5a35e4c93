"""Keys and values of earlier steps."""

import torch
from torch import nn


class DynamicLayerCache:
    def __init__(self):
        self.states = {}

    def update(self, name, new):
        old = self.states.get(name)
        self.states[name] = new if old is None else torch.cat([old, new], 0)  # guilty: concatenated_keys GS402|GS703
        return self.states[name]


class StaticLayerCache:
    def __init__(self, length, dim, device):
        self.keys = torch.zeros(length, dim, device=device)
        self._length = 0

    @property
    def seq_length(self):
        return self._length

    @seq_length.setter
    def seq_length(self, value):
        self._length = value  # guilty: cache_cursor GS702

    def update(self, new):
        self.keys[self.seq_length : self.seq_length + len(new)] = new  # guilty: cache_cursor GS702
        self.seq_length += len(new)  # guilty: cache_cursor GS702
        return self.keys


# quiet: cache_cursor_tensor
class CursorLayerCache:
    def __init__(self, length, dim, device):
        self.keys = torch.zeros(length, dim, device=device)
        self.cursor = torch.zeros(1, dtype=torch.long, device=device)

    def update(self, new):
        self.keys.index_copy_(0, self.cursor, new)
        self.cursor.add_(1)
        return self.keys


class CachedAttention(nn.Module):
    def __init__(self, dim, cache):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.cache = cache

    def remember(self, k):
        return self.cache.update(k)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        keys = self.remember(k)
        return (q @ keys.T).softmax(-1).sum(-1, keepdim=True) * v + keys.mean(0)


class ConcatenatingAttention(CachedAttention):
    def remember(self, k):
        return self.cache.update("keys", k)


class SlidingWindow(nn.Module):
    def __init__(self, window, dim, device):
        super().__init__()
        self.window = torch.zeros(window, dim, device=device)
        self.mix = nn.Linear(window, 1)

    def forward(self, x):
        self.window = torch.cat([self.window[1:], x])  # guilty: sliding_keys GS703
        return self.mix(self.window.T).T


# quiet: sliding_keys_rolled
class RollingWindow(SlidingWindow):
    def forward(self, x):
        self.window.copy_(torch.cat([self.window[1:], x]))
        return self.mix(self.window.T).T


class PartialPrefix(nn.Module):
    """Writes as many slots as have been in use."""

    def __init__(self, slots, dim, device):
        super().__init__()
        self.slots = torch.zeros(slots, dim, device=device)
        self.n = 0

    def _grow(self):
        self.n = min(self.n + 1, len(self.slots))  # guilty: partial_prefix GS702

    def forward(self, x):
        self._grow()
        self.slots[: self.n].copy_(x[: self.n])  # guilty: partial_prefix GS702|GS708
        return self.slots * 2


class EncoderDecoderCache:
    def __init__(self):
        self.is_updated, self.keys = {}, {}


class CrossAttention(nn.Module):
    """The encoder's keys are computed once a request."""

    def __init__(self, dim, layer_idx=0):
        super().__init__()
        self.k = nn.Linear(dim, dim)
        self.layer_idx = layer_idx
        self.past = EncoderDecoderCache()

    def encoder_keys(self, encoder_states):
        past = self.past
        if past.is_updated.get(self.layer_idx):
            return past.keys[self.layer_idx]
        past.keys[self.layer_idx] = self.k(encoder_states)  # guilty: cross_keys GS701
        past.is_updated[self.layer_idx] = True  # guilty: cross_keys GS701|GS702
        return past.keys[self.layer_idx]

    def forward(self, x, encoder_states):
        return (x @ self.encoder_keys(encoder_states).T).softmax(-1)


# quiet: cross_keys_fresh
class FreshCrossAttention(CrossAttention):
    def encoder_keys(self, encoder_states):
        return self.k(encoder_states)


class LengthBias(nn.Module):
    """A penalty for the distance, as steep as the first prompt asks for."""

    def bias(self, x):
        if not hasattr(self, "_bias"):
            distance = torch.arange(x.shape[-1], device=x.device)
            self._bias = -distance * x.abs().amax()  # guilty: first_bias GS701
        return self._bias

    def forward(self, x):
        return (x + self.bias(x)).softmax(-1)
