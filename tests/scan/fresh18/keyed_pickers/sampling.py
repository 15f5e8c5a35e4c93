"""Captured samplers; what a graph freezes is part of its key, the rest is a device scalar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, NamedTuple

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Options:
    top: int = 20
    greedy: bool = False
    temperature: float = 1.0


class Key(NamedTuple):
    rows: int
    top: int
    greedy: bool


def make_picker(top: int, greedy: bool, heat: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    def greedy_pick(logits: torch.Tensor) -> torch.Tensor:
        return logits.argmax(-1)

    def random_pick(logits: torch.Tensor) -> torch.Tensor:
        best, ids = logits.topk(top, dim=-1)
        odds = F.softmax(best / heat, -1)
        drawn = (odds / torch.empty_like(odds).exponential_()).argmax(-1, keepdim=True)
        return ids.gather(1, drawn).squeeze(1)

    return greedy_pick if greedy else random_pick


class Picker:
    def __init__(self, key: Key, vocabulary: int, stream: torch.cuda.Stream, device):
        self.heat = torch.ones((), device=device)
        self.logits = torch.zeros(key.rows, vocabulary, device=device)
        pick = make_picker(key.top, key.greedy, self.heat)
        here = torch.cuda.current_stream(device)
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            for _ in range(3):
                pick(self.logits)
        here.wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.tokens = pick(self.logits)

    def __call__(self, logits: torch.Tensor, temperature: float) -> torch.Tensor:
        self.logits.copy_(logits)
        self.heat.fill_(temperature)
        self.graph.replay()
        return self.tokens.clone()


class Pickers:
    def __init__(self, vocabulary: int, device):
        self.vocabulary, self.device = vocabulary, device
        self.stream = torch.cuda.Stream(device)
        self.made: dict[Key, Picker] = {}

    def sample(self, logits: torch.Tensor, options: Options) -> torch.Tensor:
        top = 0 if options.greedy else options.top
        key = Key(logits.shape[0], top, options.greedy)
        picker = self.made.get(key)
        if picker is None:
            picker = self.made[key] = Picker(key, self.vocabulary, self.stream, self.device)
        return picker(logits, options.temperature)


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    pickers = Pickers(100, device)
    requests = [
        (4, Options(top=40)),
        (4, Options(greedy=True)),
        (8, Options(top=5, temperature=0.7)),
        (4, Options(top=40, temperature=1.3)),
    ]
    picked = []
    for rows, options in requests * 6:
        picked.append(pickers.sample(torch.randn(rows, 100, device=device), options))
    print(len(pickers.made), torch.cat(picked).tolist())


if __name__ == "__main__":
    main()
