"""The rotary table, the int8 KV cache and the statistics of experts for the decoder layer in decoder_bad.py."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

INT8_MAX = 127


def quantize(values: Tensor, scale: Tensor) -> Tensor:
    return (values / scale).round().clamp(-INT8_MAX, INT8_MAX).to(torch.int8)


def dequantize(codes: Tensor, scale: Tensor) -> Tensor:
    return codes.to(torch.float32) * scale.item()


class RotaryTable:
    """The cosines and sines of all positions. Both tables have shape [positions, head_dim / 2]."""

    def __init__(self, positions: int, head_dim: int, device: torch.device) -> None:
        frequency = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angle = torch.outer(torch.arange(positions, dtype=torch.float32), frequency)
        self.cos = angle.cos().to(device)
        self.sin = angle.sin().to(device)
        self.host_position = torch.zeros(1, dtype=torch.int64)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)

    def at(self, position: int) -> tuple[Tensor, Tensor]:
        self.host_position[0] = position
        self.position.copy_(self.host_position)
        return self.cos.index_select(0, self.position), self.sin.index_select(0, self.position)


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class KVCache:
    """The keys and values of all tokens so far, as int8. Both have shape [batch, kv_heads, tokens, head_dim]."""

    def __init__(self, batch: int, kv_heads: int, head_dim: int, device: torch.device) -> None:
        self.keys = torch.empty(batch, kv_heads, 0, head_dim, dtype=torch.int8, device=device)
        self.values = torch.empty(batch, kv_heads, 0, head_dim, dtype=torch.int8, device=device)
        self.key_scale: Tensor | None = None
        self.value_scale: Tensor | None = None
        self.seen_tokens = 0

    def append(self, key: Tensor, value: Tensor) -> None:
        if self.key_scale is None or self.value_scale is None:
            self.key_scale = key.abs().amax() / INT8_MAX
            self.value_scale = value.abs().amax() / INT8_MAX
        self.keys = torch.cat([self.keys, quantize(key, self.key_scale)], dim=2)
        self.values = torch.cat([self.values, quantize(value, self.value_scale)], dim=2)
        self.seen_tokens += key.shape[2]

    def read(self, longest: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of the last `longest` tokens."""
        assert self.key_scale is not None and self.value_scale is not None
        keys = self.keys[:, :, -longest:]
        values = self.values[:, :, -longest:]
        return dequantize(keys, self.key_scale), dequantize(values, self.value_scale)


def check_context(context_lens: Tensor, limit: int) -> None:
    if (context_lens > limit).any():
        raise ValueError(f"a sequence is longer than the {limit} tokens the layer was built for")


def context_mask(context_lens: Tensor, step_info: Tensor, width: int) -> Tensor:
    """Return a mask of shape [batch, 1, 1, width]: whether a sequence attends to a slot of the cache."""
    slots = torch.arange(width, device=context_lens.device)
    age = step_info[0] - 1 - slots
    return (age < context_lens.clamp(min=1).unsqueeze(1))[:, None, None]


def tokens_per_expert(experts: Tensor, num_experts: int) -> Tensor:
    return torch.bincount(experts.flatten(), minlength=num_experts)


def active_experts(counts: Tensor) -> list[int]:
    active = counts.nonzero().flatten()
    return active.tolist()


class ExpertLoad:
    """A running mean of each expert's share of the tokens. The router prefers experts with a small share."""

    def __init__(self, num_experts: int, device: torch.device, decay: float = 0.9) -> None:
        self.mean = torch.zeros(num_experts, device=device)
        self.decay = decay

    def update(self, counts: Tensor) -> None:
        share = counts / counts.sum()
        self.mean = self.decay * self.mean + (1 - self.decay) * share

    def report(self, counts: Tensor) -> None:
        served = counts.cpu()
        idle = int((served == 0).sum())
        logger.debug(f"{idle} experts idle, mean load {self.mean}")
