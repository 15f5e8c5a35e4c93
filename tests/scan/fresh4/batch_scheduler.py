"""Continuous batching: pick the most urgent sequences, run one captured step, repeat."""
from __future__ import annotations

import dataclasses
import operator

import torch
from torch import nn


@dataclasses.dataclass(eq=False)
class Sequence:
    slot: int
    urgency: torch.Tensor
    remaining: int = 16


class TokenLog:
    """A device ring of produced tokens; its length is the number of tokens written."""

    def __init__(self, size: int, device: str):
        self.ring = torch.zeros(size, dtype=torch.long, device=device)
        self.written = torch.zeros((), dtype=torch.long, device=device)

    def write(self, tokens: torch.Tensor) -> None:
        where = (self.written + torch.arange(tokens.shape[0], device=tokens.device)) % self.ring.shape[0]
        self.ring.index_copy_(0, where, tokens)
        self.written.add_(tokens.shape[0])

    def __len__(self) -> int:
        return self.written.item()


class StepModel(nn.Module):
    def __init__(self, slots: int, dim: int, vocab: int):
        super().__init__()
        self.register_buffer("state", torch.zeros(slots, dim))
        self.cell = nn.GRUCell(dim, dim)
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, token: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        state = self.cell(self.embed(token), self.state[slots])
        self.state.index_copy_(0, slots, state)
        return self.head(state).argmax(-1)


class Batcher:
    def __init__(self, model: StepModel, width: int, slots: int, device: str = "cuda"):
        self.model, self.width, self.device = model, width, device
        self.pool: list[Sequence] = []
        self.last = torch.zeros(slots + 1, dtype=torch.long, device=device)
        self.slots = torch.full((width,), slots, dtype=torch.long, device=device)
        self.log = TokenLog(4096, device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def _forward(self) -> torch.Tensor:
        token = self.model(self.last[self.slots], self.slots)
        self.last.index_copy_(0, self.slots, token)
        return token

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
            self.token = self._forward()

    def choose(self) -> list[Sequence]:
        ranked = sorted(self.pool, key=operator.attrgetter("urgency"), reverse=True)
        return ranked[: self.width]

    def round(self) -> None:
        chosen = self.choose()
        rows = torch.tensor([seq.slot for seq in chosen]).pin_memory()
        self.slots[: rows.shape[0]].copy_(rows, non_blocking=True)
        self.graph.replay()
        self.log.write(self.token[: len(chosen)])
        for seq in chosen:
            seq.remaining -= 1
            seq.urgency.mul_(0.9)
        self.pool = [seq for seq in self.pool if seq.remaining > 0]

    def run(self, max_tokens: int) -> TokenLog:
        if self.graph is None:
            self.capture()
        while self.pool and len(self.log) < max_tokens:
            self.round()
        return self.log


if __name__ == "__main__":
    device = "cuda"
    batcher = Batcher(StepModel(65, 32, 100).to(device), width=8, slots=64, device=device)
    batcher.pool = [Sequence(slot, torch.rand((), device=device)) for slot in range(20)]
    batcher.run(max_tokens=300)
