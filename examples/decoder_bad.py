"""A decoder layer of a mixture-of-experts model, as it is first written. A step decodes one token of each sequence.

The layer runs eagerly on a CPU or a GPU and gives the right numbers, but it cannot be captured as a CUDA graph.
`decoder_good.py` has the repaired layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from decoder_bad_ops import (
    ExpertLoad,
    KVCache,
    RotaryTable,
    active_experts,
    check_context,
    context_mask,
    rotate,
    tokens_per_expert,
)
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
    def __init__(self, config: DecoderConfig, batch: int, device: torch.device) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.max_context = config.max_context
        self.scale = config.head_dim**-0.5
        self.qkv = nn.Linear(config.hidden, (config.heads + 2 * config.kv_heads) * config.head_dim, device=device)
        self.out = nn.Linear(config.heads * config.head_dim, config.hidden, device=device)
        self.kv_head_of = [head * config.kv_heads // config.heads for head in range(config.heads)]
        self.rope = RotaryTable(config.max_context, config.head_dim, device)
        self.cache = KVCache(batch, config.kv_heads, config.head_dim, device)
        self.step_info = torch.zeros(2, dtype=torch.int64, device=device)

    def forward(self, hidden: Tensor, context_lens: Tensor) -> Tensor:
        check_context(context_lens, self.max_context)
        batch, length, _ = hidden.shape
        heads = self.qkv(hidden).reshape(batch, length, -1, self.head_dim).transpose(1, 2)
        query, key, value = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        cos, sin = self.rope.at(self.cache.seen_tokens)
        self.cache.append(rotate(key, cos, sin), value)
        keys, values = self.cache.read(context_lens.max())
        keys = keys[:, self.kv_head_of]
        values = values[:, self.kv_head_of]

        self.step_info[0] = keys.shape[2]
        visible = context_mask(context_lens, self.step_info, keys.shape[2])
        scores = rotate(query, cos, sin) @ keys.transpose(-1, -2) * self.scale
        scores = torch.where(visible, scores, torch.tensor(float("-inf"), device=scores.device))
        return self.out((scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(2))


class Expert(nn.Module):
    def __init__(self, config: DecoderConfig, device: torch.device) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden, config.intermediate, device=device)
        self.down = nn.Linear(config.intermediate, config.hidden, device=device)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.down(nn.functional.silu(self.up(tokens)))


class SparseMoe(nn.Module):
    def __init__(self, config: DecoderConfig, device: torch.device) -> None:
        super().__init__()
        self.top_k = config.top_k
        self.gate = nn.Linear(config.hidden, config.experts, device=device)
        self.experts = nn.ModuleList(Expert(config, device) for _ in range(config.experts))
        self.load = ExpertLoad(config.experts, device)

    def route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights and the indices of each token's experts. Both have shape [tokens, top_k]."""
        scores = self.gate(tokens).sigmoid()
        experts = torch.topk(scores - self.load.mean, self.top_k, dim=-1).indices
        weights = scores.gather(1, experts)
        return weights / weights.sum(dim=-1, keepdim=True), experts

    def forward(self, hidden: Tensor) -> Tensor:
        tokens = hidden.flatten(0, 1)
        weights, experts = self.route(tokens)
        counts = tokens_per_expert(experts, len(self.experts))
        self.load.update(counts)
        self.load.report(counts)

        output = torch.zeros_like(tokens)
        for index in active_experts(counts):
            chosen = experts == index
            rows = chosen.any(dim=-1)
            share = weights[chosen].unsqueeze(-1)
            output[rows] += self.experts[index](tokens[rows]) * share
        return output.view_as(hidden)


class DecoderLayer(nn.Module):
    """`hidden` is [batch, 1, hidden]. `context_lens` counts the tokens of each sequence, including the new one."""

    def __init__(self, config: DecoderConfig, batch: int, device: torch.device) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden, device=device)
        self.attention = Attention(config, batch, device)
        self.moe_norm = nn.RMSNorm(config.hidden, device=device)
        self.moe = SparseMoe(config, device)

    def forward(self, hidden: Tensor, context_lens: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden), context_lens)
        hidden = hidden + self.moe(self.moe_norm(hidden))
        if not torch.isfinite(hidden).all():
            hidden = torch.nan_to_num(hidden)
        return hidden


def build_layer(
    device: torch.device, *, batch: int = 4, length: int = 128
) -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Tensor]]:
    """Return a layer with an empty cache, and the first step's inputs. `length` is the longest context in tokens."""
    config = DecoderConfig(max_context=length)
    layer = DecoderLayer(config, batch, device).eval().requires_grad_(False)
    hidden = torch.randn(batch, 1, config.hidden, device=device)
    context_lens = torch.randint(1, min(8, length) + 1, (batch,), device=device)
    return layer, (hidden,), {"context_lens": context_lens}
