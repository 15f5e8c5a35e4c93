"""A serving loop; the key has all that a graph freezes."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

DEVICE = torch.device("cuda")


class Key(NamedTuple):
    batch: int
    greedy: bool


@dataclass
class Entry:
    graph: torch.cuda.CUDAGraph
    hidden: torch.Tensor
    temperature: torch.Tensor
    result: torch.Tensor


class Head(nn.Module):
    def __init__(self, width, vocab):
        super().__init__()
        self.proj = nn.Linear(width, vocab)

    def forward(self, hidden, temperature, greedy):
        logits = self.proj(hidden)
        if greedy:
            return logits.argmax(dim=-1)
        probs = torch.softmax(logits / temperature, dim=-1)
        return torch.multinomial(probs, 1).squeeze(-1)


class GraphServer:
    def __init__(self, head):
        self.head = head
        self.entries = {}

    def _record(self, key):
        hidden = torch.zeros(key.batch, self.head.proj.in_features, device=DEVICE)
        temperature = torch.ones(1, device=DEVICE)
        stream = torch.cuda.Stream(DEVICE)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.head(hidden, temperature, key.greedy)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = self.head(hidden, temperature, key.greedy)
        return Entry(graph, hidden, temperature, result)

    @torch.no_grad()
    def serve(self, hidden, temperature):
        key = Key(hidden.shape[0], temperature == 0.0)
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = self._record(key)
        entry.hidden.copy_(hidden)
        entry.temperature.fill_(temperature)
        entry.graph.replay()
        return entry.result.clone()


def main():
    server = GraphServer(Head(8, 16).to(DEVICE))
    answers = []
    for number in range(12):
        hidden = torch.randn(2 + number % 2, 8, device=DEVICE)
        answers.append(server.serve(hidden, 0.25 * (number % 3)))
    print(len(answers), "answers,", len(server.entries), "graphs")


if __name__ == "__main__":
    main()
