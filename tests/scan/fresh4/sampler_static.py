"""Sampling rules for one decode step over logits of a fixed shape."""
from __future__ import annotations

import abc
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Knob:
    """A number from the configuration, clipped to a sensible range."""

    raw: float
    low: float
    high: float

    def __float__(self) -> float:
        return min(max(self.raw, self.low), self.high)


class Rule(abc.ABC):
    @abc.abstractmethod
    def __call__(self, logits: torch.Tensor, history: "History") -> torch.Tensor:
        ...


class Temperature(Rule):
    def __init__(self, value: float, device: torch.device):
        self.value = torch.full((), value, device=device)

    def set(self, value: float) -> None:
        self.value.fill_(value)

    def __call__(self, logits, history):
        return logits / self.value.clamp_min(1e-4)


class Repetition(Rule):
    def __init__(self, penalty: Knob):
        self.penalty = float(penalty)

    def __call__(self, logits, history):
        seen = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, history.tokens, True)
        damped = torch.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return torch.where(seen, damped, logits)


class TopK(Rule):
    def __init__(self, k: int):
        self.k = k

    def __call__(self, logits, history):
        if self.k >= logits.shape[-1]:
            return logits
        floor = logits.topk(self.k, dim=-1).values[:, -1:]
        return logits.masked_fill(logits < floor, float("-inf"))


class History:
    """The last tokens of each row, as a ring."""

    def __init__(self, batch: int, length: int, device: torch.device):
        self.tokens = torch.zeros(batch, length, dtype=torch.long, device=device)
        self.cursor = torch.zeros(1, dtype=torch.long, device=device)

    def __len__(self) -> int:
        return self.tokens.shape[1]

    def push(self, token: torch.Tensor) -> None:
        self.tokens.index_copy_(1, self.cursor, token.unsqueeze(1))
        self.cursor.add_(1).remainder_(len(self))


class Sampler:
    def __init__(self, rules: dict[int, Rule], history: History):
        self.rules = [rule for _, rule in sorted(rules.items(), key=lambda item: item[0])]
        self.history = history

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        logits = torch.nan_to_num(logits, nan=-1e4)
        for rule in self.rules:
            logits = rule(logits, self.history)
        probs = logits.softmax(-1)
        token = (probs / torch.empty_like(probs).exponential_()).argmax(-1)
        self.history.push(token)
        return token


def build(device):
    history = History(batch=3, length=8, device=device)
    rules = {
        20: Temperature(0.8, device),
        10: Repetition(Knob(1.3, 1.0, 2.0)),
        30: TopK(12),
    }
    return Sampler(rules, history), (torch.randn(3, 32, device=device),)
