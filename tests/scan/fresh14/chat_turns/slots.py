"""Slots of the running conversations: how far each is, and which turn holds it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


@dataclass
class Turn:
    session: str
    prompt: list[int]
    limit: int = 12
    answer: list[torch.Tensor] = field(default_factory=list)


class SlotTable:
    def __init__(self, slots: int, device: torch.device):
        self.device = device
        self.slots = slots
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.active = torch.zeros(slots, dtype=torch.bool, device=device)
        self.turns: dict[int, Turn] = {}
        self.free = list(range(slots))

    def admit(self, turn: Turn) -> int:
        slot = self.free.pop()
        self.turns[slot] = turn
        self.active[slot].fill_(True)
        self.lengths[slot].fill_(len(turn.prompt) - 1)
        return slot

    def release(self, slot: int) -> Turn:
        turn = self.turns.pop(slot)
        self.free.append(slot)
        keep = torch.arange(self.slots, device=self.device) != slot
        self.active.logical_and_(keep)
        self.lengths = self.lengths * keep
        return turn
