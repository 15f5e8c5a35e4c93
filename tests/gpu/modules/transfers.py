"""Steps that bring host memory to the device."""

import numpy as np
import torch
from torch import nn


class PaddingId(nn.Module):
    """Replaces ids outside of a local shard by the padding id."""

    def __init__(self, width, first, last):
        super().__init__()
        self.first, self.last = first, last
        self.table = nn.Embedding(last - first, width)

    @torch.no_grad()
    def forward(self, ids):
        pad = torch.tensor(self.first, device=ids.device)  # guilty: padding_id GS301
        local = torch.where((ids >= self.first) & (ids < self.last), ids, pad) - self.first
        return self.table(local)


def build_padding_id(device):
    return PaddingId(8, 10, 30).to(device), (torch.randint(0, 40, (2, 6), device=device),)


class ImageSizes(nn.Module):
    """Normalises boxes by the size of the image that they came from."""

    def forward(self, boxes, features):
        height, width = features.shape[-2:]
        size = boxes.new_tensor([width, height, width, height])  # guilty: image_sizes GS301
        return boxes / size


def build_image_sizes(device):
    return ImageSizes(), (torch.rand(5, 4, device=device) * 20, torch.randn(1, 3, 16, 24, device=device))


class ChannelPick(nn.Module):
    """Takes the layers that a feature pyramid is built from, by a list of indices."""

    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def forward(self, features):
        return features[:, self.kept].mean(1)  # guilty: channel_pick GS302


def build_channel_pick(device):
    return ChannelPick([2, 5, 7]), (torch.randn(2, 8, 4, 4, device=device),)


class FrozenOrder(nn.Module):
    """Permutes heads by an index that was never registered, and so stayed on the host."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.order = torch.randperm(width)

    @torch.no_grad()
    def forward(self, x):
        return self.layer(x)[:, self.order]  # guilty: frozen_order GS302


def build_frozen_order(device):
    return FrozenOrder(16).to(device), (torch.randn(4, 16, device=device),)


class BannedToken(nn.Module):
    """A logits processor that forbids one token at the first place."""

    def __init__(self, width, vocabulary, banned):
        super().__init__()
        self.head = nn.Linear(width, vocabulary)
        self.banned = banned

    @torch.no_grad()
    def forward(self, hidden):
        logits = self.head(hidden)
        logits[0, self.banned] = -1e4  # guilty: banned_token GS303
        return logits.log_softmax(-1)


def build_banned_token(device):
    return BannedToken(16, 32, 5).to(device), (torch.randn(4, 16, device=device),)


class SlotMapping(nn.Module):
    """Copies the slots of the batch from ordinary memory in every step."""

    def __init__(self, device, slots):
        super().__init__()
        self.host_slots = torch.arange(slots) % 5
        self.register_buffer("slots", torch.zeros(slots, dtype=torch.int64, device=device))
        self.register_buffer("cache", torch.zeros(8, 4, device=device))

    def forward(self, keys):
        self.slots.copy_(self.host_slots)  # guilty: slot_mapping GS304
        self.cache.index_copy_(0, self.slots[:3], keys)
        return self.cache.sum(0)


def build_slot_mapping(device):
    return SlotMapping(device, 3), (torch.randn(3, 4, device=device),)


class HopefulCopy(nn.Module):
    """`non_blocking=True`, but the memory is not pinned."""

    def __init__(self, width):
        super().__init__()
        self.host_scale = torch.rand(width) + 0.5

    def forward(self, x):
        scale = self.host_scale.to(x.device, non_blocking=True)  # guilty: hopeful_copy GS304
        return x * scale


def build_hopeful_copy(device):
    return HopefulCopy(16), (torch.randn(4, 16, device=device),)


class BlockingCopy(nn.Module):
    """The memory is pinned, but the copy is one that the host waits for."""

    def __init__(self, device, width):
        super().__init__()
        self.host_bias = torch.randn(width).pin_memory()
        self.register_buffer("bias", torch.zeros(width, device=device))

    def forward(self, x):
        self.bias.copy_(self.host_bias)  # guilty: blocking_copy GS304
        return torch.relu(x + self.bias)


def build_blocking_copy(device):
    return BlockingCopy(device, 16), (torch.randn(4, 16, device=device),)


class TimeEmbedding(nn.Module):
    """A diffusion model's frequencies, made with numpy for every step."""

    def __init__(self, width):
        super().__init__()
        self.half = width // 2
        self.layer = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, t):
        frequencies = np.exp(-np.log(10000.0) * np.arange(self.half, dtype=np.float32) / self.half)
        row = torch.from_numpy(frequencies.astype(np.float32))
        angles = t[:, None] * row.to(t.device)  # guilty: time_embedding GS304
        return self.layer(torch.cat([angles.sin(), angles.cos()], dim=-1))


def build_time_embedding(device):
    return TimeEmbedding(16).to(device), (torch.rand(4, device=device) * 100,)
