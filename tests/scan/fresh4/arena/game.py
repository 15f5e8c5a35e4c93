from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class Outcome:
    reward: torch.Tensor
    ended: torch.Tensor

    def __len__(self) -> int:
        return self.ended.shape[0]


class Arena:
    moves = ((0, 1), (0, -1), (1, 0), (-1, 0))

    def __init__(self, games: int, size: int, limit: int, device: torch.device):
        self.size, self.limit = size, limit
        self.delta = torch.tensor(self.moves, device=device)
        self.pos = torch.randint(0, size, (games, 2), device=device)
        self.prey = torch.randint(0, size, (games, 2), device=device)
        self.age = torch.zeros(games, dtype=torch.long, device=device)

    def observe(self) -> torch.Tensor:
        return (self.prey - self.pos).float() / self.size

    def distance(self) -> torch.Tensor:
        return (self.prey - self.pos).abs().sum(-1)

    def step(self, action: torch.Tensor) -> Outcome:
        before = self.distance()
        self.pos.add_(self.delta[action]).clamp_(0, self.size - 1)
        flight = self.delta[torch.randint_like(action, len(self.moves))]
        self.prey.add_(flight).clamp_(0, self.size - 1)
        self.age.add_(1)
        caught = (self.pos == self.prey).all(-1)
        reward = (before - self.distance()).float() + 10.0 * caught
        outcome = Outcome(reward, caught | (self.age >= self.limit))
        self.restart(outcome.ended)
        return outcome

    def restart(self, ended: torch.Tensor) -> None:
        column = ended.unsqueeze(1)
        for cells in (self.pos, self.prey):
            fresh = torch.randint_like(cells, self.size)
            cells.copy_(torch.where(column, fresh, cells))
        self.age.masked_fill_(ended, 0)
