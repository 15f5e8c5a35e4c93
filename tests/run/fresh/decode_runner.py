"""Batch-size bucketed decode runner for a small GPT-style model."""
from __future__ import annotations

import bisect
from typing import Dict, List, Optional

import torch
from torch import nn


class TinyDecoder(nn.Module):
    def __init__(self, vocab: int = 512, width: int = 64, depth: int = 2):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(2048, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth)
        )
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        h = self.tok(ids) + self.pos(positions)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)


class DecodeGraphRunner:
    """Owns one captured graph for every padded batch size."""

    def __init__(self, model: nn.Module, sizes: List[int], device: torch.device):
        self.model = model
        self.sizes = sorted(sizes)
        self.device = device
        top = self.sizes[-1]
        self.ids = torch.zeros(top, dtype=torch.long, device=device)
        self.positions = torch.zeros(top, dtype=torch.long, device=device)
        self.graphs: Dict[int, torch.cuda.CUDAGraph] = {}
        self.logits: Dict[int, torch.Tensor] = {}
        self.pool: Optional[tuple] = None

    @torch.inference_mode()
    def capture(self) -> None:
        stream = torch.cuda.Stream(self.device)
        for size in reversed(self.sizes):
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.model(self.ids[:size], self.positions[:size])
            torch.cuda.current_stream(self.device).wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, stream=stream):
                self.logits[size] = self.model(self.ids[:size], self.positions[:size])
            self.pool = self.pool or graph.pool()
            self.graphs[size] = graph

    def run(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        n = ids.shape[0]
        size = self.sizes[bisect.bisect_left(self.sizes, n)]
        self.ids[:n].copy_(ids)
        self.positions = positions
        self.graphs[size].replay()
        return self.logits[size][:n]


class Server:
    def __init__(self, runner: DecodeGraphRunner, eos: int = 0):
        self.runner = runner
        self.eos = eos
        self.trace: List[torch.Tensor] = []

    def generate(self, prompts: torch.Tensor, budget: int) -> List[List[int]]:
        ids = prompts
        positions = torch.zeros_like(prompts)
        done: List[List[int]] = [[] for _ in range(prompts.shape[0])]
        for _ in range(budget):
            logits = self.runner.run(ids, positions)
            self.trace.append(logits)
            ids = logits.argmax(-1)
            positions = positions + 1
            for row, token in zip(done, ids.tolist()):
                row.append(token)
        return done


def main() -> None:
    device = torch.device("cuda", 0)
    model = TinyDecoder().to(device).eval()
    runner = DecodeGraphRunner(model, [1, 2, 4, 8], device)
    runner.capture()
    server = Server(runner)
    out = server.generate(torch.randint(1, 512, (3,), device=device), budget=32)
    print(len(out))


if __name__ == "__main__":
    main()
