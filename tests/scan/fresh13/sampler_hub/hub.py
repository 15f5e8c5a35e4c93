"""Samplers as graphs, one for each batch size that the scheduler forms."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 1.0
    penalty: float = 1.0
    top_k: int = 20


@dataclass
class Entry:
    graph: torch.cuda.CUDAGraph
    logits: torch.Tensor
    counts: torch.Tensor
    temperature: torch.Tensor
    penalty: torch.Tensor
    tokens: torch.Tensor


def draw(logits, counts, temperature, penalty, top_k):
    scores = logits - penalty * counts
    kept, index = scores.topk(top_k, dim=-1)
    noise = torch.empty_like(kept).exponential_()
    choice = (kept / temperature).softmax(-1).div(noise).argmax(-1, keepdim=True)
    return index.gather(-1, choice).squeeze(-1)


class SamplerHub:
    def __init__(self, vocab):
        self.vocab = vocab
        self.entries: dict[int, Entry] = {}

    def _record(self, batch: int, params: SamplingParams) -> Entry:
        logits = torch.zeros(batch, self.vocab, device="cuda")
        counts = torch.zeros(batch, self.vocab, device="cuda")
        temperature = torch.full((1,), params.temperature, device="cuda")
        penalty = torch.full((1,), params.penalty, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                draw(logits, counts, temperature, penalty, params.top_k)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tokens = draw(logits, counts, temperature, penalty, params.top_k)
        return Entry(graph, logits, counts, temperature, penalty, tokens)

    def sample(self, logits, counts, params: SamplingParams):
        batch = logits.shape[0]
        entry = self.entries.get(batch)
        if entry is None:
            entry = self.entries[batch] = self._record(batch, params)
        entry.logits.copy_(logits)
        entry.counts.copy_(counts)
        entry.temperature.fill_(params.temperature)
        entry.graph.replay()
        return entry.tokens.clone()
