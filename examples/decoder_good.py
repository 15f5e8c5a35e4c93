"""The decoder layer of decoder_bad.py, repaired: one CUDA graph contains the whole step.

The cache is a ring of fixed size, and its position is on the device. `scatter_add_` counts the tokens of each expert in
a buffer. Every expert runs on every token, perhaps with weight zero. Constants of a step are made before the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from decoder_good_ops import ExpertLoad, KVCache, RotaryTable, rotate
from torch import Tensor, nn


@dataclass(frozen=True)
class DecoderConfig:
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    experts: int = 4
    top_k: int = 2
    intermediate: int = 128
    max_context: int = 128


class Attention(nn.Module):
    kv_head_of: Tensor

    def __init__(self, config: DecoderConfig, batch: int, device: torch.device) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.scale = config.head_dim**-0.5
        self.qkv = nn.Linear(config.hidden, (config.heads + 2 * config.kv_heads) * config.head_dim, device=device)
        self.out = nn.Linear(config.heads * config.head_dim, config.hidden, device=device)
        kv_head_of = torch.arange(config.heads, device=device) * config.kv_heads // config.heads
        self.register_buffer("kv_head_of", kv_head_of)
        self.rope = RotaryTable(config.max_context, config.head_dim, device)
        self.cache = KVCache(batch, config.kv_heads, config.max_context, config.head_dim, device)

    def project(self, hidden: Tensor) -> tuple[Tensor, ...]:
        """Return query, key and value before rotation. Their shape is [batch, heads or kv_heads, 1, head_dim]."""
        batch, length, _ = hidden.shape
        heads = self.qkv(hidden).reshape(batch, length, -1, self.head_dim).transpose(1, 2)
        return heads.split([self.heads, self.kv_heads, self.kv_heads], dim=1)

    def prepare(self, hidden: Tensor) -> None:
        _, key, value = self.project(hidden)
        cos, sin = self.rope.at(self.cache.next_slot())
        self.cache.calibrate(rotate(key, cos, sin), value)

    def forward(self, hidden: Tensor, context_lens: Tensor) -> Tensor:
        query, key, value = self.project(hidden)
        slot = self.cache.next_slot()
        cos, sin = self.rope.at(slot)
        self.cache.append(slot, rotate(key, cos, sin), value)
        keys, values = self.cache.read()
        keys = keys.index_select(1, self.kv_head_of)
        values = values.index_select(1, self.kv_head_of)

        scores = rotate(query, cos, sin) @ keys.transpose(-1, -2) * self.scale
        scores = scores.masked_fill(~self.cache.visible(slot, context_lens), float("-inf"))
        return self.out((scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(2))


class Expert(nn.Module):
    def __init__(self, config: DecoderConfig, device: torch.device) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden, config.intermediate, device=device)
        self.down = nn.Linear(config.intermediate, config.hidden, device=device)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.down(nn.functional.silu(self.up(tokens)))


class SparseMoe(nn.Module):
    output: Tensor

    def __init__(self, config: DecoderConfig, batch: int, device: torch.device) -> None:
        super().__init__()
        self.top_k = config.top_k
        self.gate = nn.Linear(config.hidden, config.experts, device=device)
        self.experts = nn.ModuleList(Expert(config, device) for _ in range(config.experts))
        self.load = ExpertLoad(config.experts, batch * config.top_k, device)
        self.register_buffer("output", torch.zeros(batch, config.hidden, device=device))

    def route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights and the indices of each token's experts. Both have shape [tokens, top_k]."""
        scores = self.gate(tokens).sigmoid()
        experts = torch.topk(scores - self.load.mean, self.top_k, dim=-1).indices
        weights = scores.gather(1, experts)
        return weights / weights.sum(dim=-1, keepdim=True), experts

    def forward(self, hidden: Tensor) -> Tensor:
        tokens = hidden.flatten(0, 1)
        weights, experts = self.route(tokens)
        self.load.update(experts)

        self.output.zero_()
        for index, expert in enumerate(self.experts):
            share = weights.masked_fill(experts != index, 0.0).sum(dim=-1, keepdim=True)
            self.output.add_(expert(tokens) * share)
        return self.output.view_as(hidden)


class DecoderLayer(nn.Module):
    """`hidden` is [batch, 1, hidden]. `context_lens` counts the tokens of each sequence, including the new one."""

    def __init__(self, config: DecoderConfig, batch: int, device: torch.device) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden, device=device)
        self.attention = Attention(config, batch, device)
        self.moe_norm = nn.RMSNorm(config.hidden, device=device)
        self.moe = SparseMoe(config, batch, device)

    def prepare(self, hidden: Tensor) -> None:
        """Set the scales from the first batch. Call this once, before the first step."""
        self.attention.prepare(self.attention_norm(hidden))

    def forward(self, hidden: Tensor, context_lens: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden), context_lens)
        hidden = hidden + self.moe(self.moe_norm(hidden))
        return torch.nan_to_num(hidden)


def build_layer(
    device: torch.device, *, batch: int = 4, length: int = 128
) -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Tensor]]:
    """Return a prepared layer with an empty cache, and the first inputs. `length` is the longest context in tokens."""
    config = DecoderConfig(max_context=length)
    layer = DecoderLayer(config, batch, device).eval().requires_grad_(False)
    hidden = torch.randn(batch, 1, config.hidden, device=device)
    context_lens = torch.randint(1, min(8, length) + 1, (batch,), device=device)
    layer.prepare(hidden)
    return layer, (hidden,), {"context_lens": context_lens}
