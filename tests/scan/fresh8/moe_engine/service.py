"""Serves a stack of sparse blocks; hidden states come from another stage on the device."""
from __future__ import annotations

import logging
from typing import Iterable, Iterator

import torch
from torch import nn

from .layers import SparseBlock

log = logging.getLogger(__name__)


class Stack(nn.Module):
    def __init__(self, width: int, experts: int, depth: int):
        super().__init__()
        self.blocks = nn.ModuleList(SparseBlock(width, experts) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def loads(self) -> list[torch.Tensor]:
        return [block.moe.router.load for block in self.blocks]


class Stage:
    def __init__(self, stack: Stack, tokens: int, width: int, device: torch.device, skew: float = 0.5):
        self.stack = stack.to(device).eval()
        self.hidden = torch.zeros(tokens, width, device=device)
        self.skew = skew
        self.warned = False
        self.stream = torch.cuda.Stream(device)
        self._build()

    @torch.inference_mode()
    def _build(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.stack(self.hidden)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.result = self.stack(self.hidden)

    def _watch(self) -> None:
        for index, load in enumerate(self.stack.loads()):
            if not self.warned and load.max() > self.skew:
                log.warning("block %d is skewed", index)
                self.warned = True

    @torch.inference_mode()
    def pump(self, source: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        for hidden in source:
            self.hidden = hidden.contiguous()
            self.graph.replay()
            self._watch()
            yield self.result.clone()


def main() -> None:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    stage = Stage(Stack(128, 8, 4), 256, 128, device)
    source = (torch.randn(256, 128, device=device) for _ in range(100))
    total = torch.zeros((), device=device)
    for out in stage.pump(source):
        total.add_(out.mean())
    print(total.item())


if __name__ == "__main__":
    main()
