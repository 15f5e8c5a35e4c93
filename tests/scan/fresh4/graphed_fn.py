"""A decorator that records a tensor function once and replays it afterwards."""
from __future__ import annotations

import functools
import math
from typing import Callable, Iterator

import torch


def record(body: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor):
    static = x.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            body(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = body(static)
    return graph, static, out


def graphed(prepare: Callable):
    """Decorate fn(x, aux, **options); aux is what prepare(x) returns."""

    def decorate(fn: Callable):
        records = {}

        @functools.wraps(fn)
        def call(x: torch.Tensor, **options) -> torch.Tensor:
            key = (x.shape, x.dtype)
            if key not in records:
                aux = prepare(x)
                records[key] = record(lambda t: fn(t, aux, **options), x)
            graph, static, out = records[key]
            static.copy_(x)
            graph.replay()
            return out

        return call

    return decorate


def cosine_basis(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[-1]
    k = torch.arange(n, device=x.device, dtype=x.dtype)
    basis = torch.cos(math.pi / n * (k + 0.5).unsqueeze(0) * k.unsqueeze(1))
    return basis / basis.norm(dim=1, keepdim=True)


@graphed(prepare=cosine_basis)
def smooth(x: torch.Tensor, basis: torch.Tensor, *, keep: int = 8, sharpen: bool = False):
    coeff = x @ basis.t()
    coeff = torch.cat([coeff[:, :keep], torch.zeros_like(coeff[:, keep:])], dim=-1)
    y = coeff @ basis
    return 2 * y - x if sharpen else y


def windows(device: str, count: int, rows: int = 32, width: int = 64) -> Iterator[torch.Tensor]:
    for _ in range(count):
        yield torch.randn(rows, width, device=device).cumsum(-1)


def process(stream: Iterator[torch.Tensor], limit: float) -> list[torch.Tensor]:
    kept: list[torch.Tensor] = []
    for index, window in enumerate(stream):
        kept.append(smooth(window, keep=8 if index % 2 else 16, sharpen=index % 3 == 0))
        if max(kept[-1].abs().amax(), kept[-1].std()) > limit:
            kept.pop()
    return kept


if __name__ == "__main__":
    print(len(process(windows("cuda", 100), limit=60.0)))
