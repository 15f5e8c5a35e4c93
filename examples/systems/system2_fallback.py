"""A portable fallback for an attention kernel: reference code in the hot path, which takes much memory.

The event is vllm#40899 in plain PyTorch, on one device. If the fast kernel cannot run, sparse attention gathers each
request's chosen keys, casts them to float32 and computes with whole tensors. The step can be captured. But the pool of
each graph then contains all of these tensors, for the largest batch, before the size of the KV cache is chosen. For a
long prompt the same lines run out of memory. `build_repaired` processes a few rows at a time, in a workspace that is
made once for all buckets. The environment variable FALLBACK_CUDA_GRAPHS turns graphs off for the fallback.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

HEADS, DIM, CHOSEN, SLOTS = 16, 576, 512, 4096


class SparseAttention(nn.Module):
    """Each row of `query` attends to slots of the cache: the first `lengths` of the slots in its row of `indices`."""

    supports_cuda_graph = os.environ.get("FALLBACK_CUDA_GRAPHS", "1") == "1"

    cache: Tensor
    places: Tensor

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("cache", torch.randn(SLOTS, DIM, device=device).to(torch.bfloat16))
        self.register_buffer("places", torch.arange(CHOSEN, device=device))


class Fallback(SparseAttention):
    def forward(self, query: Tensor, indices: Tensor, lengths: Tensor) -> Tensor:
        keys = self.cache[indices]
        wide = keys.float()
        scores = torch.einsum("nhd,ncd->nhc", query.float(), wide) * DIM**-0.5
        unused = self.places >= lengths.unsqueeze(1)
        scores = scores.masked_fill(unused.unsqueeze(1), float("-inf"))
        weights = scores.softmax(-1)
        return torch.einsum("nhc,ncd->nhd", weights, wide).to(query.dtype)


class InWorkspace(SparseAttention):
    """Computes the same results, `rows` rows at a time, in memory that all batches share."""

    keys: Tensor
    wide: Tensor

    def __init__(self, device: torch.device, rows: int) -> None:
        super().__init__(device)
        self.rows = rows
        self.register_buffer("keys", torch.empty(rows * CHOSEN, DIM, dtype=torch.bfloat16, device=device))
        self.register_buffer("wide", torch.empty(rows, CHOSEN, DIM, device=device))

    def forward(self, query: Tensor, indices: Tensor, lengths: Tensor) -> Tensor:
        out = torch.empty_like(query)
        for first in range(0, query.shape[0], self.rows):
            part = slice(first, first + self.rows)
            count = query[part].shape[0]
            keys = self.keys[: count * CHOSEN]
            torch.index_select(self.cache, 0, indices[part].flatten(), out=keys)
            wide = self.wide[:count].copy_(keys.view(count, CHOSEN, DIM))
            scores = torch.einsum("nhd,ncd->nhc", query[part].float(), wide).mul_(DIM**-0.5)
            unused = self.places >= lengths[part].unsqueeze(1)
            scores.masked_fill_(unused.unsqueeze(1), float("-inf"))
            out[part] = torch.einsum("nhc,ncd->nhd", scores.softmax(-1), wide)
        return out


def _step(module: nn.Module, device: torch.device, batch: int) -> tuple[nn.Module, tuple[Tensor, Tensor, Tensor]]:
    query = torch.randn(batch, HEADS, DIM, device=device).to(torch.bfloat16)
    indices = torch.randint(0, SLOTS, (batch, CHOSEN), device=device)
    lengths = torch.randint(1, CHOSEN + 1, (batch,), device=device)
    return module.requires_grad_(False), (query, indices, lengths)


def build_layer(device: torch.device, batch: int = 8) -> tuple[nn.Module, tuple[Tensor, Tensor, Tensor]]:
    """`batch` is the number of tokens: one for each request in decoding, or the tokens of a prompt."""
    torch.manual_seed(0)
    return _step(Fallback(device), device, batch)


def build_repaired(device: torch.device, batch: int = 8) -> tuple[nn.Module, tuple[Tensor, Tensor, Tensor]]:
    torch.manual_seed(0)
    return _step(InWorkspace(device, rows=4), device, batch)
