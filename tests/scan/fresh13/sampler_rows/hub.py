"""Samplers as graphs by batch size, with every parameter of a request in a row of a static tensor."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch


@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 1.0
    penalty: float = 1.0
    top_k: int = 20


@dataclass
class Rows:
    """One row for each request of a batch."""

    temperature: torch.Tensor
    penalty: torch.Tensor
    top_k: torch.Tensor

    @classmethod
    def uniform(cls, batch, params: SamplingParams):
        shape = (batch, 1)
        return cls(*(torch.full(shape, float(getattr(params, f.name)), device="cuda") for f in fields(params)))

    def copy_(self, other: Rows):
        self.temperature.copy_(other.temperature)
        self.penalty.copy_(other.penalty)
        self.top_k.copy_(other.top_k)


@dataclass
class Entry:
    graph: torch.cuda.CUDAGraph
    logits: torch.Tensor
    counts: torch.Tensor
    rows: Rows
    tokens: torch.Tensor


def draw(logits, counts, rows):
    scores = logits - rows.penalty * counts
    ordered, index = scores.sort(dim=-1, descending=True)
    rank = torch.arange(ordered.shape[-1], device=ordered.device)
    ordered = ordered.masked_fill(rank >= rows.top_k, -1e9)
    noise = torch.empty_like(ordered).exponential_()
    choice = (ordered / rows.temperature).softmax(-1).div(noise).argmax(-1, keepdim=True)
    return index.gather(-1, choice).squeeze(-1)


class SamplerHub:
    def __init__(self, vocab):
        self.vocab = vocab
        self.entries: dict[int, Entry] = {}

    def _record(self, batch: int) -> Entry:
        logits = torch.zeros(batch, self.vocab, device="cuda")
        counts = torch.zeros(batch, self.vocab, device="cuda")
        rows = Rows.uniform(batch, SamplingParams())
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                draw(logits, counts, rows)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tokens = draw(logits, counts, rows)
        return Entry(graph, logits, counts, rows, tokens)

    def sample(self, logits, counts, rows: Rows):
        batch = logits.shape[0]
        entry = self.entries.get(batch)
        if entry is None:
            entry = self.entries[batch] = self._record(batch)
        entry.logits.copy_(logits)
        entry.counts.copy_(counts)
        entry.rows.copy_(rows)
        entry.graph.replay()
        return entry.tokens.clone()
