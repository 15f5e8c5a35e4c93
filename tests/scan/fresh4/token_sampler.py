"""Logit processors and a nucleus sampler for one decode step."""
from __future__ import annotations

import abc

import torch


class Temperature:
    """A temperature that an operator may move while the server is up."""

    def __init__(self, value: float, device: torch.device):
        self.value = torch.full((), value, device=device)

    def set(self, value: float) -> None:
        self.value.fill_(value)

    def __float__(self) -> float:
        return self.value.item()

    def __repr__(self) -> str:
        return "Temperature()"


class Processor(abc.ABC):
    @abc.abstractmethod
    def __call__(self, logits: torch.Tensor, history: "History") -> torch.Tensor:
        ...


class Scale(Processor):
    def __init__(self, temperature: Temperature):
        self.temperature = temperature

    def __call__(self, logits, history):
        return logits / max(float(self.temperature), 1e-4)


class Repetition(Processor):
    def __init__(self, penalty: float = 1.2):
        self.penalty = penalty

    def __call__(self, logits, history):
        rows = []
        for row, past in zip(logits, history.tokens):
            seen = torch.unique(past)
            picked = row[seen]
            picked = torch.where(picked > 0, picked / self.penalty, picked * self.penalty)
            rows.append(row.index_copy(0, seen, picked))
        return torch.stack(rows)


class Sanitise(Processor):
    def __call__(self, logits, history):
        return torch.nan_to_num(logits, nan=-1e4)


class TopP(Processor):
    def __init__(self, p: float = 0.9):
        self.p = p

    def __call__(self, logits, history):
        ordered, index = logits.sort(dim=-1, descending=True)
        mass = ordered.softmax(-1).cumsum(-1)
        drop = mass - ordered.softmax(-1) > self.p
        ordered = ordered.masked_fill(drop, float("-inf"))
        return torch.empty_like(logits).scatter_(-1, index, ordered)


class History:
    def __init__(self, batch: int, length: int, device: torch.device):
        self.tokens = torch.zeros(batch, length, dtype=torch.long, device=device)
        self.cursor = 0

    def push(self, token: torch.Tensor) -> None:
        self.tokens[:, self.cursor] = token
        self.cursor = (self.cursor + 1) % self.tokens.shape[1]


class Sampler:
    def __init__(self, processors: list[Processor], history: History):
        self.processors = processors
        self.history = history

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        for process in self.processors:
            logits = process(logits, self.history)
        probs = logits.softmax(-1)
        race = torch.empty_like(probs).exponential_()
        token = (probs / race).argmax(-1)
        self.history.push(token)
        return token


def build(device):
    history = History(batch=3, length=8, device=device)
    temperature = Temperature(0.8, device)
    sampler = Sampler([Sanitise(), Repetition(), Scale(temperature), TopP()], history)
    return sampler, (torch.randn(3, 32, device=device),)
