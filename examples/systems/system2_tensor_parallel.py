"""A decoder layer split over ranks: each rank has some heads and a part of the inner width; two sums join all ranks.

The setting is that of vllm#40899 and similar reports, in plain PyTorch. `build_layer` can be captured in every rank. In
`build_asking`, the ranks use the host in every step to agree on the part of the cache that they read.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

CONTEXT, WIDTH, HEADS = 1024, 2048, 16


def ranks() -> tuple[int, int]:
    """Return the number of this rank and the number of ranks."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def sum_over_ranks(part: Tensor) -> Tensor:
    if dist.is_initialized():
        dist.all_reduce(part)
    return part


def shard(*shape: int, dim: int) -> nn.Parameter:
    """Return this rank's part of a weight. All ranks draw the same weight before it is split."""
    rank, size = ranks()
    return nn.Parameter((torch.randn(shape) * shape[-1] ** -0.5).chunk(size, dim)[rank].clone())


class Attention(nn.Module):
    """Each request has one new token after `lengths` tokens in a static cache. Each rank has some of the heads."""

    keys: Tensor
    values: Tensor
    slots: Tensor
    scores: Tensor

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.heads = HEADS // ranks()[1]
        self.dim = WIDTH // HEADS
        self.project = shard(3, WIDTH, WIDTH, dim=1)
        self.output = shard(WIDTH, WIDTH, dim=1)
        self.register_buffer("keys", torch.zeros(batch, self.heads, CONTEXT, self.dim))
        self.register_buffer("values", torch.zeros(batch, self.heads, CONTEXT, self.dim))
        self.register_buffer("slots", torch.arange(CONTEXT))
        self.register_buffer("scores", torch.zeros(batch, self.heads, 1, CONTEXT))

    def store(self, x: Tensor, lengths: Tensor) -> Tensor:
        projected = F.linear(x, self.project.flatten(0, 1))
        query, key, value = projected.view(x.shape[0], 3, self.heads, 1, self.dim).unbind(1)
        at = lengths.view(-1, 1, 1, 1).expand(-1, self.heads, 1, self.dim)
        self.keys.scatter_(2, at, key)
        self.values.scatter_(2, at, value)
        return query

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        query = self.store(x, lengths)
        torch.matmul(query, self.keys.transpose(2, 3), out=self.scores)
        unseen = self.slots > lengths.view(-1, 1, 1, 1)
        self.scores.mul_(self.dim**-0.5).masked_fill_(unseen, float("-inf"))
        mixed = self.scores.softmax(-1) @ self.values
        return sum_over_ranks(F.linear(mixed.flatten(1), self.output))


class AskingAttention(Attention):
    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        query = self.store(x, lengths)
        longest = [int(lengths.max())] * ranks()[1]
        if dist.is_initialized():
            dist.all_gather_object(longest, longest[0])
        keys, values = self.keys[:, :, : max(longest) + 1], self.values[:, :, : max(longest) + 1]
        unseen = self.slots[: max(longest) + 1] > lengths.view(-1, 1, 1, 1)
        scores = (query @ keys.transpose(2, 3) * self.dim**-0.5).masked_fill(unseen, float("-inf"))
        return sum_over_ranks(F.linear((scores.softmax(-1) @ values).flatten(1), self.output))


class Layer(nn.Module):
    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)])
        self.up = shard(4 * WIDTH, WIDTH, dim=0)
        self.down = shard(WIDTH, 4 * WIDTH, dim=1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x), lengths)
        return x + sum_over_ranks(F.linear(F.silu(F.linear(self.norms[1](x), self.up)), self.down))


Built = tuple[nn.Module, tuple[Tensor, Tensor]]


def built(kind: type[Attention], device: torch.device, batch: int) -> Built:
    torch.manual_seed(0)  # every rank draws the whole weights, and keeps its part
    layer = Layer(kind(batch)).requires_grad_(False).to(device)
    x = torch.randn(batch, WIDTH)
    lengths = torch.arange(batch) * 7 % (CONTEXT // 2) + 8
    return layer, (x.to(device), lengths.to(device))


def build_layer(device: torch.device, batch: int = 4) -> Built:
    return built(Attention, device, batch)


def build_asking(device: torch.device, batch: int = 4) -> Built:
    return built(AskingAttention, device, batch)
