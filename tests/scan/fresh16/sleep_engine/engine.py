"""Decodes by replaying one graph, and keeps the times of its steps."""

from __future__ import annotations

import time

import torch
from model import WIDTH, TinyLM
from offload import Sleeper

EOS = 1


class Engine:
    def __init__(self, rows: int, device: torch.device):
        self.model = TinyLM().to(device).eval()
        self.sleeper = Sleeper(self.model)
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.states = [torch.zeros(rows, WIDTH, device=device) for _ in self.model.cells]
        self.graph = torch.cuda.CUDAGraph()
        self.times: list[float] = []

    def forward(self) -> None:
        logits, states = self.model(self.tokens, self.states)
        for old, new in zip(self.states, states, strict=True):
            old.copy_(new)
        self.tokens.copy_(logits.argmax(-1))

    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.forward()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.forward()

    def reset(self, first: torch.Tensor) -> None:
        self.tokens.copy_(first, non_blocking=True)
        for state in self.states:
            state.zero_()

    def step(self) -> torch.Tensor:
        begin = time.perf_counter()
        self.graph.replay()
        torch.cuda.synchronize()
        self.times.append(time.perf_counter() - begin)
        return self.tokens.cpu()

    def answer(self, first: torch.Tensor, limit: int) -> torch.Tensor:
        self.sleeper.wake()
        self.reset(first.pin_memory())
        answers = []
        for _ in range(limit):
            answers.append(self.step())
        return torch.stack(answers, 1)
