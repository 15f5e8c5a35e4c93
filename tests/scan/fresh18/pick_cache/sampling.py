"""Turns logits into tokens with captured samplers, one graph for each batch size."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class SamplingOptions:
    top: int = 20
    temperature: float = 1.0


def pick(logits: torch.Tensor, heat: torch.Tensor, top: int) -> torch.Tensor:
    best, ids = logits.topk(top, dim=-1)
    odds = F.softmax(best / heat, -1)
    drawn = (odds / torch.empty_like(odds).exponential_()).argmax(-1, keepdim=True)
    return ids.gather(1, drawn).squeeze(1)


@dataclass
class Sampler:
    logits: torch.Tensor
    heat: torch.Tensor
    stream: torch.cuda.Stream
    graph: torch.cuda.CUDAGraph = field(default_factory=torch.cuda.CUDAGraph)
    tokens: torch.Tensor | None = None

    def record(self, top: int) -> Sampler:
        here = torch.cuda.current_stream(self.logits.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                pick(self.logits, self.heat, top)
        here.wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.tokens = pick(self.logits, self.heat, top)
        return self

    def run(self, logits: torch.Tensor, temperature: float) -> torch.Tensor:
        self.logits.copy_(logits)
        self.heat.fill_(temperature)
        self.graph.replay()
        return self.tokens.clone()


class SamplerBank:
    def __init__(self, vocabulary: int, device):
        self.vocabulary, self.device = vocabulary, device
        self.stream = torch.cuda.Stream(device)
        self.samplers: dict[int, Sampler] = {}

    def fresh(self, rows: int) -> Sampler:
        logits = torch.zeros(rows, self.vocabulary, device=self.device)
        return Sampler(logits, torch.ones((), device=self.device), self.stream)

    def sample(self, logits: torch.Tensor, options: SamplingOptions) -> torch.Tensor:
        rows = logits.shape[0]
        if rows not in self.samplers:
            self.samplers[rows] = self.fresh(rows).record(options.top)
        return self.samplers[rows].run(logits, options.temperature)


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    bank = SamplerBank(100, device)
    requests = [
        (4, SamplingOptions(top=40)),
        (4, SamplingOptions(top=1)),
        (8, SamplingOptions(top=5, temperature=0.7)),
        (4, SamplingOptions(top=5, temperature=1.3)),
    ]
    for rows, options in requests * 6:
        tokens = bank.sample(torch.randn(rows, 100, device=device), options)
    print(tokens.shape, len(bank.samplers))


if __name__ == "__main__":
    main()
