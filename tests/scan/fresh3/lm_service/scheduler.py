from collections import deque
from dataclasses import dataclass, field


@dataclass
class Request:
    uid: int
    prompt: list
    limit: int
    output: list = field(default_factory=list)
    slot: int = -1

    @property
    def length(self):
        return len(self.prompt) + len(self.output)

    @property
    def last(self):
        return self.output[-1] if self.output else self.prompt[-1]


class Scheduler:
    def __init__(self, slots):
        self.free = list(range(slots))
        self.waiting = deque()
        self.running = {}

    def add(self, request):
        self.waiting.append(request)

    def admit(self):
        while self.waiting and self.free:
            request = self.waiting.popleft()
            request.slot = self.free.pop()
            self.running[request.slot] = request

    def retire(self):
        for slot, request in list(self.running.items()):
            if len(request.output) >= request.limit:
                self.free.append(slot)
                del self.running[slot]
                yield request
