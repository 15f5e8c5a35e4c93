"""Processors of requests are turned into rows of one bias when a request takes its slot; the sampler only adds it."""
import dataclasses

import torch

import graphsafe


@dataclasses.dataclass
class Request:
    name: str
    until: int
    processors: list = dataclasses.field(default_factory=list)


def forbid(words):
    def process(row):
        row[words[0] : words[1]] -= 30.0

    return process


class Sampler:
    def __init__(self, device, rows=4, vocab=32):
        self.rows = [Request(f"r{i}", 10 + 7 * i) for i in range(rows)]
        self.made = rows
        self.head = torch.randn(16, vocab, device=device)
        self.bias = torch.zeros(rows, vocab, device=device)
        self.seen = {}

    def tick(self, k):
        for i, request in enumerate(self.rows):
            if k < request.until:
                continue
            self.made += 1
            rules = [forbid((self.made % 9, 20))] if self.made % 3 == 0 else []
            self.rows[i] = Request(f"r{self.made}", k + 12 + 5 * (self.made % 4), rules)
            row = torch.zeros(self.bias.shape[1])
            for process in rules:
                process(row)
            self.bias[i].copy_(row)

    def step(self, hidden):
        logits = hidden @ self.head + self.bias
        for request in self.rows:  # for the dashboard
            self.seen[request.name] = self.seen.get(request.name, 0) + len(request.processors)
        return logits.softmax(-1), logits.argmax(-1)


def build(device):
    sampler = Sampler(device)

    def refresh(args, kwargs, k):
        sampler.tick(k)
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(sampler.step, (torch.randn(4, 16, device=device),), refresh=refresh)
