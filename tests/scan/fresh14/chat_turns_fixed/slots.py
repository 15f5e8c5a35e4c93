"""Slots of the running conversations. All that the graph reads is made once and written in place."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class Turn:
    session: str
    prompt: torch.Tensor
    limit: int = 12
    steps: int = 0


class SlotTable:
    def __init__(self, slots: int, room: int, device: torch.device):
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.active = torch.zeros(slots, dtype=torch.bool, device=device)
        self.answers = torch.zeros(slots, room, dtype=torch.long, device=device)
        self.turns: dict[int, Turn] = {}
        self.free = list(range(slots))

    def admit(self, turn: Turn) -> int:
        slot = self.free.pop()
        self.turns[slot] = turn
        self.active[slot].fill_(True)
        self.lengths[slot].fill_(turn.prompt.shape[0] - 1)
        return slot

    def record(self, sampled: torch.Tensor) -> None:
        for slot, turn in self.turns.items():
            self.answers[slot, turn.steps].copy_(sampled[slot])
            turn.steps += 1

    def release(self, slot: int) -> tuple[Turn, torch.Tensor]:
        turn = self.turns.pop(slot)
        self.free.append(slot)
        self.active[slot].fill_(False)
        self.lengths[slot].zero_()
        return turn, self.answers[slot, : turn.steps].clone()
