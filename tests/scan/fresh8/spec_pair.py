"""Draft-and-verify decoding of one sequence with two small window models."""
from __future__ import annotations

from typing import Callable, Iterator

import torch
from torch import nn


class WindowLM(nn.Module):
    """Predicts the next token from the last `span` tokens."""

    def __init__(self, vocab: int, span: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.mix = nn.Linear(span * width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        h = self.embed(window).flatten(-2)
        return self.head(torch.tanh(self.mix(h)))


def record(body: Callable[[], None], stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        body()
    return graph


class Tandem:
    def __init__(self, target: WindowLM, draft: WindowLM, span: int, ahead: int, device: torch.device):
        self.target = target.to(device).eval()
        self.draft = draft.to(device).eval()
        self.span = span
        self.ahead = ahead
        self.window = torch.zeros(1, span, dtype=torch.int64, device=device)
        self.guess = torch.zeros(1, ahead, dtype=torch.int64, device=device)
        self.truth = torch.zeros(1, ahead + 1, dtype=torch.int64, device=device)
        self.dice = torch.Generator(device=device)
        self.dice.manual_seed(1234)
        self.rounds = 0
        stream = torch.cuda.Stream(device)
        with torch.no_grad():
            self.g_guess = record(self._guess, stream)
            self.g_check = record(self._check, stream)

    def _guess(self) -> None:
        context = self.window
        for j in range(self.ahead):
            odds = self.draft(context).softmax(-1)
            token = torch.multinomial(odds, 1, generator=self.dice)
            self.guess[:, j : j + 1].copy_(token)
            context = torch.cat([context[:, 1:], token], dim=1)

    def _check(self) -> None:
        everything = torch.cat([self.window, self.guess], dim=1)
        views = everything.unfold(1, self.span, 1)
        self.truth.copy_(self.target(views).argmax(-1))

    def leap(self) -> torch.Tensor:
        self.g_guess.replay()
        self.g_check.replay()
        agree = (self.truth[:, :-1] == self.guess).long()
        kept = int(agree.cumprod(dim=1).sum())
        fresh = self.truth[:, : kept + 1].clone()
        self.window = torch.cat([self.window, fresh], dim=1)[:, -self.span :]
        self.rounds += 1
        return fresh

    def emit(self, total: int) -> Iterator[torch.Tensor]:
        sent = 0
        while sent < total:
            piece = self.leap()
            sent += piece.shape[1]
            yield piece

    def prime(self, prompt: list[int]) -> None:
        tail = ([0] * self.span + prompt)[-self.span :]
        self.window.copy_(torch.tensor([tail], dtype=torch.int64).pin_memory(), non_blocking=True)


def main() -> None:
    device = torch.device("cuda", 0)
    with torch.cuda.device(device):
        pair = Tandem(WindowLM(256, 8, 128), WindowLM(256, 8, 32), 8, 4, device)
        pair.prime([5, 17, 33])
        pieces = list(pair.emit(64))
    print(torch.cat(pieces, dim=1).tolist(), pair.rounds)


if __name__ == "__main__":
    main()
