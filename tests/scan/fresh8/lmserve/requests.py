"""Requests and the admission queue of the toy LM server."""
from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field

import torch

_ids = itertools.count()


@dataclass
class Request:
    prompt: list[int]
    budget: int
    rid: int = field(default_factory=lambda: next(_ids))
    slot: int = -1
    length: int = 0
    produced: int = 0

    @property
    def finished(self) -> bool:
        return self.produced >= self.budget


class Lobby:
    def __init__(self, slots: int):
        self.waiting: deque[Request] = deque()
        self.free = list(range(slots))

    def put(self, request: Request) -> None:
        self.waiting.append(request)

    def admit(self, room: int) -> list[Request]:
        taken = []
        while self.waiting and self.free and room > len(taken):
            request = self.waiting.popleft()
            request.slot = self.free.pop()
            taken.append(request)
        return taken

    def leave(self, request: Request) -> None:
        self.free.append(request.slot)
        request.slot = -1


@dataclass
class Roster:
    """What one decode iteration works on."""

    positions: torch.Tensor
    slots: torch.Tensor
    longest: int

    @classmethod
    def of(cls, active: list[Request], device: torch.device) -> "Roster":
        where = [r.length for r in active]
        rows = torch.tensor([r.slot for r in active], dtype=torch.int64).pin_memory()
        return cls(
            positions=torch.tensor(where, dtype=torch.int64, device=device),
            slots=rows.to(device, non_blocking=True),
            longest=max(where) + 1,
        )
