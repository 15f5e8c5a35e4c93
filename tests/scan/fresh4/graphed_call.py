"""A decorator that records a tensor function once per signature and replays it afterwards."""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Callable, Iterator

import torch


@dataclass(eq=False)
class Record:
    graph: torch.cuda.CUDAGraph
    x: torch.Tensor
    aux: torch.Tensor
    out: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.x.copy_(x)
        self.graph.replay()
        return self.out.clone()


def record(fn: Callable, x: torch.Tensor, aux: torch.Tensor, options: dict) -> Record:
    body = functools.partial(fn, **options)
    static = x.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            body(static, aux)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = body(static, aux)
    return Record(graph, static, aux, out)


def graphed(prepare: Callable):
    """Decorate fn(x, aux, **options); aux is what prepare(x) returns."""

    def decorate(fn: Callable):
        records: dict[tuple, Record] = {}

        @functools.wraps(fn)
        def call(x: torch.Tensor, **options) -> torch.Tensor:
            key = (x.shape, x.dtype, x.device, tuple(sorted(options.items())))
            if key not in records:
                records[key] = record(fn, x, prepare(x), options)
            return records[key](x)

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
        y = smooth(window, keep=max(8, 16 - index % 3), sharpen=index % 3 == 0)
        wild = torch.maximum(y.abs().amax(), y.std()) > limit
        kept.append(y.masked_fill(wild, 0.0))
    return kept


if __name__ == "__main__":
    print(len(process(windows("cuda", 100), limit=60.0)))
