"""A classifier-free-guided denoising step with ancestral noise."""
from __future__ import annotations

import itertools
from functools import cached_property

import torch
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.mix(self.embed(ids)).mean(1)


class Eps(nn.Module):
    def __init__(self, dim: int, ctx: int):
        super().__init__()
        self.inp = nn.Linear(dim + ctx + 1, 64)
        self.out = nn.Linear(64, dim)

    def forward(self, x, level, ctx):
        level = level.expand(x.shape[0], 1)
        return self.out(nn.functional.silu(self.inp(torch.cat([x, ctx, level], -1))))


class Denoiser:
    def __init__(self, encoder, eps, sigmas: list[float], alphas: torch.Tensor, ids: torch.Tensor):
        self.encoder, self.eps = encoder, eps
        self.ids = ids
        self.alphas = alphas
        self._eta = itertools.cycle(sigmas)
        self._noise = torch.Generator().manual_seed(9)

    def set_prompt(self, ids: torch.Tensor) -> None:
        self.ids.copy_(ids)
        self.__dict__.pop("context", None)

    @cached_property
    def context(self) -> torch.Tensor:
        return self.encoder(self.ids)

    def ancestral(self, x: torch.Tensor) -> torch.Tensor:
        eta = next(self._eta)
        noise = torch.randn(x.shape, generator=self._noise)
        return x + eta * noise.to(x.device)

    @torch.no_grad()
    def __call__(self, x: torch.Tensor, t: torch.Tensor, guidance: torch.Tensor) -> torch.Tensor:
        level = self.alphas[t]
        ctx = self.context.expand(x.shape[0], -1)
        cond = self.eps(x, level, ctx)
        free = self.eps(x, level, torch.zeros_like(ctx))
        eps = free + guidance * (cond - free)
        clean = (x - (1 - level).sqrt() * eps) / level.sqrt()
        return self.ancestral(clean)


def build(device):
    encoder = TextEncoder(50, 8).to(device)
    eps = Eps(12, 8).to(device)
    alphas = torch.linspace(0.99, 0.1, 20, device=device)
    ids = torch.randint(0, 50, (1, 6), device=device)
    step = Denoiser(encoder, eps, [0.3, 0.2, 0.1], alphas, ids)
    x = torch.randn(4, 12, device=device)
    t = torch.full((), 7, dtype=torch.long, device=device)
    return step, (x, t, torch.full((), 3.0, device=device))
