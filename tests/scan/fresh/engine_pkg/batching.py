"""What a scheduler hands to the runner."""
from dataclasses import dataclass, field


@dataclass
class Sequence:
    tokens: list = field(default_factory=lambda: [1])
    pages: list = field(default_factory=lambda: [0, 1])

    def __len__(self):
        return len(self.tokens)


class Scheduler:
    def __init__(self, limit):
        self.limit, self.waiting, self.running = limit, [], []

    def add(self, seq):
        self.waiting.append(seq)

    def next_batch(self):
        while self.waiting and len(self.running) < self.limit:
            self.running.append(self.waiting.pop(0))
        return self.running

    def retire(self, stop):
        self.running = [s for s in self.running if len(s) < stop]
