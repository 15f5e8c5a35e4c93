"""Schedules chunks of prompts and decode steps; slot 0 is for padding."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch
from bank import GraphBank
from model import LENGTH, Decoder

CHUNK, ROWS, EOS = 4, 8, 1


def pinned(numbers: list[int]) -> torch.Tensor:
    return torch.tensor(numbers).pin_memory()


@dataclass
class Request:
    prompt: list[int]
    greedy: bool
    slot: int = -1
    filled: int = 0
    last: int = 0
    answer: list[int] | None = None

    @property
    def place(self) -> int:
        return len(self.prompt) + len(self.answer or []) - 1

    def done(self) -> bool:
        return bool(self.answer) and (self.answer[-1] == EOS or self.place >= LENGTH - 2)


class Engine:
    def __init__(self, device: torch.device):
        self.device = device
        self.model = Decoder(ROWS + 1).to(device).eval()
        self.bank = GraphBank(self.model, device)
        self.free = list(range(1, ROWS + 1))
        self.waiting: deque[Request] = deque()
        self.filling: list[Request] = []
        self.running: list[Request] = []

    def fill(self) -> bool:
        """One chunk of each prompt; says whether a request joined the running ones."""
        joined = False
        while self.waiting and self.free:
            request = self.waiting.popleft()
            request.slot = self.free.pop()
            self.filling.append(request)
        for request in list(self.filling):
            chunk = request.prompt[request.filled : request.filled + CHUNK]
            self.model.prefill(pinned(chunk).to(self.device, non_blocking=True), request.slot, request.filled)
            request.filled += len(chunk)
            if request.filled == len(request.prompt):
                request.last, request.answer = request.prompt[-1], []
                self.filling.remove(request)
                self.running.append(request)
                joined = True
        return joined

    def step(self) -> None:
        if self.fill():
            self.bank.seat(pinned([r.place for r in self.running]))
        if not self.running:
            return
        tokens = pinned([r.last for r in self.running])
        slots = pinned([r.slot for r in self.running])
        sampled = self.bank.run(tokens, slots, all(r.greedy for r in self.running))
        for request, token in zip(self.running, sampled.tolist(), strict=True):
            request.answer.append(token)
            request.last = token
        for request in [r for r in self.running if r.done()]:
            self.running.remove(request)
            self.free.append(request.slot)

    def busy(self) -> bool:
        return bool(self.waiting or self.filling or self.running)
