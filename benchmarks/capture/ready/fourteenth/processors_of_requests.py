"""Each request may bring logits processors; the sampler applies those of all running requests, row by row."""
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


class Scheduler:
    def __init__(self, rows):
        self.rows = [Request(f"r{i}", 10 + 7 * i) for i in range(rows)]
        self.made = rows

    def tick(self, k):
        for i, request in enumerate(self.rows):
            if k >= request.until:
                self.made += 1
                rules = [forbid((5, 20))] if self.made % 17 == 0 else []
                self.rows[i] = Request(f"r{self.made}", k + 12 + 5 * (self.made % 4), rules)


class Sampler:
    def __init__(self, device, rows=4, vocab=32):
        self.scheduler = Scheduler(rows)
        self.head = torch.randn(16, vocab, device=device)

    def step(self, hidden):
        logits = hidden @ self.head
        for row, request in zip(logits, self.scheduler.rows):
            for process in request.processors:
                process(row)
        return logits.softmax(-1), logits.argmax(-1)


def build(device):
    sampler = Sampler(device)

    def refresh(args, kwargs, k):
        sampler.scheduler.tick(k)
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(sampler.step, (torch.randn(4, 16, device=device),), refresh=refresh)
