"""A plan that only the warm-up computes: all replays divide the work as the first batch required.

The event is vllm#42444 in plain PyTorch. Warm-up and capture share one metadata object. The planning kernels run only
in the first step, so the graph contains the attention but not the planning. Every replay uses the warm-up's lengths.
No error is raised, and an eager module after the same warm-up gives the same wrong results. `build_repaired` computes
the plan in every step and writes it into a buffer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SPLIT = 4
"The number of tokens that one work item covers."


class AttentionMetadata:
    """Data about a batch that all layers of one model share."""

    def __init__(self) -> None:
        self.plan: Tensor | None = None


class SplitAttention(nn.Module):
    """Attention over the first `lengths` tokens of each sequence, cut into work items of `SPLIT` tokens."""

    keys: Tensor
    values: Tensor
    starts: Tensor
    item_of: Tensor
    place_in: Tensor

    def __init__(self, batch: int, tokens: int, dim: int, device: torch.device) -> None:
        super().__init__()
        slots = torch.arange(tokens, device=device)
        self.register_buffer("keys", torch.randn(batch, tokens, dim, device=device))
        self.register_buffer("values", torch.randn(batch, tokens, dim, device=device))
        self.register_buffer("starts", slots[::SPLIT].clone())
        self.register_buffer("item_of", slots // SPLIT)
        self.register_buffer("place_in", slots % SPLIT)

    def split(self, lengths: Tensor) -> Tensor:
        """Return the number of tokens in each work item, [batch, items]. Every sequence has at least one token."""
        return (lengths.clamp(min=1).unsqueeze(1) - self.starts).clamp(min=0, max=SPLIT)

    def attend(self, query: Tensor, plan: Tensor) -> Tensor:
        covered = self.place_in < plan.index_select(1, self.item_of)
        scores = torch.einsum("bd,btd->bt", query, self.keys) * query.shape[-1] ** -0.5
        weights = scores.masked_fill(~covered, float("-inf")).softmax(dim=-1)
        return torch.einsum("bt,btd->bd", weights, self.values)


class PlannedOnce(SplitAttention):
    def __init__(self, metadata: AttentionMetadata, batch: int, tokens: int, dim: int, device: torch.device) -> None:
        super().__init__(batch, tokens, dim, device)
        self.metadata = metadata

    def forward(self, query: Tensor, lengths: Tensor) -> Tensor:
        if self.metadata.plan is None:
            self.metadata.plan = self.split(lengths)
        return self.attend(query, self.metadata.plan)


class PlannedEachStep(SplitAttention):
    plan: Tensor

    def __init__(self, batch: int, tokens: int, dim: int, device: torch.device) -> None:
        super().__init__(batch, tokens, dim, device)
        self.register_buffer("plan", torch.zeros(batch, len(self.starts), dtype=torch.int64, device=device))

    def forward(self, query: Tensor, lengths: Tensor) -> Tensor:
        self.plan.copy_(self.split(lengths))
        return self.attend(query, self.plan)


def _inputs(device: torch.device, batch: int, length: int) -> tuple[Tensor, Tensor]:
    quarters = torch.arange(batch, device=device) * 2 % 3 + 1
    return torch.randn(batch, 16, device=device), quarters * (length // 4)


def build_layer(device: torch.device, *, batch: int = 4, length: int = 32) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """`length` is the number of tokens that fit into the cache."""
    return PlannedOnce(AttentionMetadata(), batch, length, dim=16, device=device), _inputs(device, batch, length)


def build_repaired(
    device: torch.device, *, batch: int = 4, length: int = 32
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    return PlannedEachStep(batch, length, dim=16, device=device), _inputs(device, batch, length)
