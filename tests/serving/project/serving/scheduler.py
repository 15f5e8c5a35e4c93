from __future__ import annotations

from collections import deque

from .request import Request


class Scheduler:
    """Keeps up to `most` requests running, and gives each the blocks that its next token needs."""

    def __init__(self, blocks: int, block_size: int, most: int) -> None:
        self.free = deque(range(1, blocks))  # block 0 takes what padding writes
        self.block_size = block_size
        self.most = most
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    def add(self, request: Request) -> None:
        self.waiting.append(request)

    def schedule(self) -> list[Request]:
        while self.waiting and len(self.running) < self.most:
            self.running.append(self.waiting.popleft())
        for request in self.running:
            while len(request.blocks) * self.block_size < request.length:
                request.blocks.append(self.free.popleft())
        return list(self.running)

    def finish(self, end: int) -> list[Request]:
        done = [request for request in self.running if request.is_done(end)]
        for request in done:
            self.running.remove(request)
            self.free.extend(request.blocks)
            request.blocks.clear()
        return done
