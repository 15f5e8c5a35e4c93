"""Buckets whose steps leave something in the process that the next bucket finds."""

from __future__ import annotations

import functools
from typing import Any

import torch

Built = tuple[Any, tuple[Any, ...]]

SERVER = {"batch": 1}
CACHE: dict[str, torch.Tensor] = {}


@functools.cache
def slopes(heads: int, device: torch.device) -> torch.Tensor:
    return torch.arange(1, heads + 1, device=device) * (4.0 / SERVER["batch"])


def build_memoised(device: torch.device, batch: int = 2) -> Built:
    """The cache's key lacks the batch, so the first bucket's slopes serve all."""
    SERVER["batch"] = batch
    return (lambda x: x * slopes(8, device)), (torch.randn(batch, 8, device=device),)


@functools.cache
def slopes_of(heads: int, device: torch.device, batch: int) -> torch.Tensor:
    return torch.arange(1, heads + 1, device=device) * (4.0 / batch)


def build_memoised_by_batch(device: torch.device, batch: int = 2) -> Built:
    """Sound: each bucket has slopes of its own."""
    return (lambda x: x * slopes_of(8, device, batch)), (torch.randn(batch, 8, device=device),)


def build_shared_cache(device: torch.device, batch: int = 2) -> Built:
    """Sound: the first step makes a cache that all buckets write and read, each its own rows."""

    def step(x: torch.Tensor) -> torch.Tensor:
        kept = CACHE.setdefault(str(device), torch.zeros(16, 8, device=device))
        kept[:batch].copy_(x)
        return kept[:batch] * 2

    return step, (torch.randn(batch, 8, device=device),)
