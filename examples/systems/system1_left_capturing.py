"""A constructor swallows the failure of its capture and goes on: the module works, but the process is broken.

The event is vllm#39371 in plain PyTorch. The constructor of the sparse attention in `build_layer` tries to capture a
decode graph. The capture fails at a host read. The constructor takes the exception as a sign that the device cannot
capture, and the module runs eagerly. Up to torch 2.11, the default generator then stays in capture mode: the next
`torch.randn` on the device raises "Offset increment outside graph capture encountered unexpectedly". `build_repaired`
does not read on the host, so its capture succeeds, and it does not swallow errors.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)


class SparseAttention(nn.Module):
    """Each query attends to the `top_k` keys that a cheap indexer ranks highest. `query` has shape [batch, dim]."""

    keys: Tensor
    values: Tensor
    lengths: Tensor
    slots: Tensor

    def __init__(self, batch: int, tokens: int, dim: int, top_k: int, device: torch.device) -> None:
        super().__init__()
        self.top_k = top_k
        self.device = device
        self.indexer = nn.Linear(dim, dim, device=device)
        self.register_buffer("keys", torch.randn(batch, tokens, dim, device=device))
        self.register_buffer("values", torch.randn(batch, tokens, dim, device=device))
        self.register_buffer("lengths", torch.randint(top_k, tokens + 1, (batch,), device=device))
        self.register_buffer("slots", torch.arange(tokens, device=device))

    def rank(self, query: Tensor) -> Tensor:
        """Return the score of every key, [batch, tokens]. After the end of a sequence the scores are -inf."""
        scores = torch.einsum("bd,btd->bt", self.indexer(query), self.keys)
        return scores.masked_fill(self.slots >= self.lengths.unsqueeze(1), float("-inf"))

    def attend(self, query: Tensor, chosen: Tensor) -> Tensor:
        rows = chosen.unsqueeze(-1).expand(-1, -1, query.shape[-1])
        keys, values = self.keys.gather(1, rows), self.values.gather(1, rows)
        weights = torch.einsum("bd,bkd->bk", query, keys).softmax(dim=-1)
        return torch.einsum("bk,bkd->bd", weights, values)

    def forward(self, query: Tensor) -> Tensor:
        return self.attend(query, self.rank(query).topk(self.top_k, dim=-1).indices)


class WarmedSparseAttention(SparseAttention):
    def __init__(self, batch: int, tokens: int, dim: int, top_k: int, device: torch.device) -> None:
        super().__init__(batch, tokens, dim, top_k, device)
        self.decode_graph = self.try_capture(torch.zeros(batch, dim, device=device))

    def shortest_prefix(self, query: Tensor) -> Tensor:
        """Do the same as `forward`, but only for as many keys as the shortest sequence has."""
        shortest = int(self.lengths.min().item())
        scores = self.rank(query)[:, :shortest]
        return self.attend(query, scores.topk(self.top_k, dim=-1).indices)

    def try_capture(self, query: Tensor) -> torch.cuda.CUDAGraph | None:
        if self.device.type != "cuda":
            return None
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(self.device)):
                self.shortest_prefix(query)
        except RuntimeError as error:
            logger.info("no decode graph on this device, running eagerly: %s", error)
            return None
        return graph


class RepairedSparseAttention(SparseAttention):
    def __init__(self, batch: int, tokens: int, dim: int, top_k: int, device: torch.device) -> None:
        super().__init__(batch, tokens, dim, top_k, device)
        self.decode_graph = self.capture(torch.zeros(batch, dim, device=device))

    def capture(self, query: Tensor) -> torch.cuda.CUDAGraph | None:
        if self.device.type != "cuda":
            return None
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self(query)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self(query)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return graph


def _query(device: torch.device, batch: int) -> Tensor:
    return torch.linspace(-1.0, 1.0, batch * 32, device=device).reshape(batch, 32)


def build_layer(device: torch.device, *, batch: int = 4, length: int = 64) -> tuple[nn.Module, tuple[Tensor]]:
    """`length` is the number of cached tokens. The query is not random, because `torch.randn` would raise here."""
    layer = WarmedSparseAttention(batch, length, dim=32, top_k=8, device=device).requires_grad_(False)
    return layer, (_query(device, batch),)


def build_repaired(device: torch.device, *, batch: int = 4, length: int = 64) -> tuple[nn.Module, tuple[Tensor]]:
    layer = RepairedSparseAttention(batch, length, dim=32, top_k=8, device=device).requires_grad_(False)
    return layer, (_query(device, batch),)
