from __future__ import annotations

import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocab: int = 64, dim: int = 32, blocks: int = 64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cache = nn.Parameter(torch.randn(blocks, dim), requires_grad=False)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, table):
        return self.head(torch.tanh(self.mix(self.embed(ids) + self.cache[table].mean(1))))


class Runner:
    def __init__(self, model: TinyLM, rows: int, width: int, device: str = "cuda"):
        self.model = model
        self.device = device
        self.ids = torch.zeros(rows, dtype=torch.long, device=device)
        self.table = torch.zeros(rows, width, dtype=torch.long, device=device)
        self.active = torch.ones(rows, dtype=torch.bool, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def _forward(self) -> torch.Tensor:
        token = self.model(self.ids, self.table).argmax(-1)
        return torch.where(self.active, token, self.ids)

    @torch.inference_mode()
    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self._forward()

    @torch.no_grad()
    def load(self, weights: dict[str, torch.Tensor]) -> None:
        for name, param in self.model.named_parameters():
            param.copy_(weights[name])

    def step(self) -> torch.Tensor:
        self.graph.replay()
        return self.out
