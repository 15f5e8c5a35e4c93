from collections import deque
from dataclasses import dataclass, field


@dataclass
class Request:
    prompt: int
    slot: int
    want: int
    temperature: float = 0.0
    produced: list = field(default_factory=list)


class Scheduler:
    def __init__(self, limit):
        self.limit = limit
        self.waiting, self.running = deque(), []

    def add(self, request):
        self.waiting.append(request)

    def plan(self):
        self.running = [r for r in self.running if len(r.produced) < r.want]
        while self.waiting and len(self.running) < self.limit:
            self.running.append(self.waiting.popleft())
        return self.running
