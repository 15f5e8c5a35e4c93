"""The rotary table, the int8 KV cache and the statistics of experts for the decoder layer in decoder_good.py.

A step writes only to buffers of fixed size at fixed addresses, and every position is a device tensor.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

INT8_MAX = 127


def quantize(values: Tensor, scale: Tensor) -> Tensor:
    return (values / scale).round().clamp(-INT8_MAX, INT8_MAX).to(torch.int8)


def dequantize(codes: Tensor, scale: Tensor) -> Tensor:
    return codes.to(torch.float32) * scale


class RotaryTable(nn.Module):
    """The cosines and sines of all positions. Both tables have shape [positions, head_dim / 2]."""

    cos: Tensor
    sin: Tensor

    def __init__(self, positions: int, head_dim: int, device: torch.device) -> None:
        super().__init__()
        frequency = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angle = torch.outer(torch.arange(positions, dtype=torch.float32), frequency)
        self.register_buffer("cos", angle.cos().to(device))
        self.register_buffer("sin", angle.sin().to(device))

    def at(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows for `position`, an int64 device tensor of one element."""
        return self.cos.index_select(0, position), self.sin.index_select(0, position)


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class KVCache(nn.Module):
    """A ring with the last `capacity` tokens' keys and values, as int8: [batch, kv_heads, capacity, head_dim]."""

    keys: Tensor
    values: Tensor
    key_scale: Tensor
    value_scale: Tensor
    slots: Tensor
    tokens: Tensor

    def __init__(self, batch: int, kv_heads: int, capacity: int, head_dim: int, device: torch.device) -> None:
        super().__init__()
        self.capacity = capacity
        shape = (batch, kv_heads, capacity, head_dim)
        self.register_buffer("keys", torch.zeros(shape, dtype=torch.int8, device=device))
        self.register_buffer("values", torch.zeros(shape, dtype=torch.int8, device=device))
        self.register_buffer("key_scale", torch.ones((), device=device))
        self.register_buffer("value_scale", torch.ones((), device=device))
        self.register_buffer("slots", torch.arange(capacity, device=device))
        self.register_buffer("tokens", torch.zeros(1, dtype=torch.int64, device=device))

    def calibrate(self, key: Tensor, value: Tensor) -> None:
        """Set the scales. Call this before the first step."""
        self.key_scale.copy_(key.abs().amax() / INT8_MAX)
        self.value_scale.copy_(value.abs().amax() / INT8_MAX)

    def next_slot(self) -> Tensor:
        return torch.remainder(self.tokens, self.capacity)

    def append(self, slot: Tensor, key: Tensor, value: Tensor) -> None:
        self.keys.index_copy_(2, slot, quantize(key, self.key_scale))
        self.values.index_copy_(2, slot, quantize(value, self.value_scale))
        self.tokens.add_(1)

    def read(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all slots, including empty slots."""
        return dequantize(self.keys, self.key_scale), dequantize(self.values, self.value_scale)

    def visible(self, slot: Tensor, context_lens: Tensor) -> Tensor:
        """Return whether a sequence attends to a slot, [batch, 1, 1, capacity]. `slot` is the newest slot."""
        age = torch.remainder(slot - self.slots, self.capacity)
        seen = torch.minimum(context_lens.clamp(min=1), self.tokens)
        return (age < seen.unsqueeze(1))[:, None, None]


class ExpertLoad(nn.Module):
    """A running mean of each expert's share of the tokens. The router prefers experts with a small share."""

    mean: Tensor
    counts: Tensor
    ones: Tensor

    def __init__(self, num_experts: int, choices: int, device: torch.device, decay: float = 0.9) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("mean", torch.zeros(num_experts, device=device))
        self.register_buffer("counts", torch.zeros(num_experts, dtype=torch.int64, device=device))
        self.register_buffer("ones", torch.ones(choices, dtype=torch.int64, device=device))

    def update(self, experts: Tensor) -> None:
        self.counts.zero_().scatter_add_(0, experts.flatten(), self.ones)
        share = self.counts / self.counts.sum()
        self.mean.mul_(self.decay).add_(share, alpha=1 - self.decay)

    def report(self) -> None:
        """Log the load. The engine calls this between steps."""
        idle = int((self.counts.cpu() == 0).sum())
        logger.debug("%d experts idle, mean load %s", idle, self.mean.tolist())
