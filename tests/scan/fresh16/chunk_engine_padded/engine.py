"""Schedules chunks of prompts and decode steps of answers with a fixed length; slot 0 is for padding."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch
from bank import GraphBank
from model import Decoder

CHUNK, ROWS = 4, 8


def pinned(numbers: list[int]) -> torch.Tensor:
    return torch.tensor(numbers).pin_memory()


@dataclass
class Request:
    prompt: list[int]
    limit: int
    greedy: bool
    slot: int = -1
    filled: int = 0
    made: int = 0
    answer: torch.Tensor | None = None

    @property
    def place(self) -> int:
        return len(self.prompt) + self.made - 1


class Engine:
    def __init__(self, device: torch.device):
        self.device = device
        self.model = Decoder(ROWS + 1).to(device).eval()
        self.bank = GraphBank(self.model, ROWS + 1, device)
        self.bank.capture()
        self.free = list(range(1, ROWS + 1))
        self.waiting: deque[Request] = deque()
        self.filling: list[Request] = []
        self.running: list[Request] = []

    def fill(self) -> None:
        while self.waiting and self.free:
            request = self.waiting.popleft()
            request.slot = self.free.pop()
            self.filling.append(request)
        for request in list(self.filling):
            chunk = request.prompt[request.filled : request.filled + CHUNK]
            tokens = pinned(chunk).to(self.device, non_blocking=True)
            self.model.prefill(tokens, request.slot, request.filled)
            request.filled += len(chunk)
            if request.filled == len(request.prompt):
                self.bank.last[request.slot].copy_(tokens[-1])
                self.filling.remove(request)
                self.running.append(request)

    def step(self) -> None:
        self.fill()
        for greedy in (False, True):
            rows = [r for r in self.running if r.greedy == greedy]
            if not rows:
                continue
            self.bank.run(pinned([r.place for r in rows]), pinned([r.slot for r in rows]), greedy)
            for request in rows:
                request.made += 1
                if request.made == request.limit:
                    first = len(request.prompt) - 1
                    request.answer = self.bank.history[request.slot, first : first + request.limit].clone()
                    self.running.remove(request)
                    self.free.append(request.slot)

    def busy(self) -> bool:
        return bool(self.waiting or self.filling or self.running)
