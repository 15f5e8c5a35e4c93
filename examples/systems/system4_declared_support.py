"""Support for CUDA graphs declared too low, and too high.

The event is vllm#34457 in plain PyTorch. A metadata builder declares that only batches of one token per request can be
captured. The attention could also process uniform batches of several tokens, as in speculative decoding. Because of the
declaration the engine never captures these; only their speed shows this. `build_layer` declares too little.
`build_bold` declares too much: for several tokens it reads a length from the device. `build_repaired` is right.
"""

from __future__ import annotations

import enum
from typing import ClassVar

import torch
from torch import Tensor, nn


class AttentionCGSupport(enum.Enum):
    NEVER = 0
    UNIFORM_SINGLE_TOKEN_DECODE = 1
    UNIFORM_BATCH = 2
    ALWAYS = 3


class MetadataBuilder:
    """Tells an engine, before it captures, which batches can be captured."""

    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.UNIFORM_BATCH

    @classmethod
    def get_cudagraph_support(cls, vllm_config: object, kv_cache_spec: object) -> AttentionCGSupport:
        return cls._cudagraph_support


class ModestBuilder(MetadataBuilder):
    _cudagraph_support = AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE


class Attention(nn.Module):
    """Each request's last `q_len` tokens attend to the first `lengths` tokens of its context."""

    keys: Tensor
    values: Tensor
    slots: Tensor

    def __init__(self, builder: MetadataBuilder, batch: int, context: int, dim: int, device: torch.device) -> None:
        super().__init__()
        self.builder = builder
        self.register_buffer("keys", torch.randn(batch, context, dim, device=device))
        self.register_buffer("values", torch.randn(batch, context, dim, device=device))
        self.register_buffer("slots", torch.arange(context, device=device))

    def forward(self, query: Tensor, lengths: Tensor) -> Tensor:
        behind = query.shape[1] - 1 - self.slots[: query.shape[1]]
        seen = self.slots < (lengths.unsqueeze(1) - behind).clamp(min=1).unsqueeze(2)
        scores = torch.einsum("bqd,btd->bqt", query, self.keys) * query.shape[-1] ** -0.5
        return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ self.values


class BoldAttention(Attention):
    """For several tokens per request, this attention cuts the context to the length of the longest request."""

    def forward(self, query: Tensor, lengths: Tensor) -> Tensor:
        if query.shape[1] > 1:
            longest = int(lengths.max())
            scores = torch.einsum("bqd,btd->bqt", query, self.keys[:, :longest]) * query.shape[-1] ** -0.5
            return scores.softmax(-1) @ self.values[:, :longest]
        return super().forward(query, lengths)


def _step(
    kind: type[Attention], builder: MetadataBuilder, device: torch.device, batch: int, q_len: int
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    module = kind(builder, batch, 64, 32, device)
    lengths = torch.arange(8, 8 + batch, device=device) % 56 + 8
    return module, (torch.randn(batch, q_len, 32, device=device), lengths)


def build_layer(device: torch.device, batch: int = 4, q_len: int = 1) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    return _step(Attention, ModestBuilder(), device, batch, q_len)


def build_bold(device: torch.device, batch: int = 4, q_len: int = 1) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    return _step(BoldAttention, MetadataBuilder(), device, batch, q_len)


def build_repaired(device: torch.device, batch: int = 4, q_len: int = 1) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    return _step(Attention, MetadataBuilder(), device, batch, q_len)
