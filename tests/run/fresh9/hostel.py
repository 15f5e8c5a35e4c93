"""Continuous batching: a request owns a slot of recurrent state, a step runs over the ready ones, padded to a size."""

from collections import deque
from dataclasses import dataclass, field

import torch
from torch import nn

DIM, VOCAB, SLOTS, SIZES, REQUESTS = 40, 140, 8, (2, 4, 8), 24


@dataclass(eq=False)
class Request:
    number: int
    first: int
    length: int
    slot: int = -1
    tokens: list[torch.Tensor] = field(default_factory=list)


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.mix = nn.Linear(2 * DIM, DIM)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, token: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = torch.tanh(self.mix(torch.cat((self.embed(token), state), dim=-1)))
        return self.head(state).argmax(-1), state


class Engine:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cell = Cell().to(device).eval()
        # One slot more than there are requests, for rows that only fill a batch up.
        self.states = torch.zeros(SLOTS + 1, DIM, device=device)
        self.last = torch.zeros(SLOTS + 1, dtype=torch.long, device=device)
        self.slots = torch.full((max(SIZES),), SLOTS, dtype=torch.long, device=device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        for size in sorted(SIZES, reverse=True):
            self.graphs[size] = self.record(size)

    def step(self, size: int) -> None:
        slots = self.slots[:size]
        token, state = self.cell(self.last[slots], self.states[slots])
        self.states[slots] = state
        self.last[slots] = token

    def record(self, size: int) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step(size)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step(size)
        return graph

    def admit(self, request: Request) -> None:
        self.states[request.slot].zero_()
        self.last[request.slot].fill_(request.first)

    def decode(self, ready: list[Request]) -> None:
        count = len(ready)
        size = min(size for size in SIZES if size >= count)
        slots = torch.tensor([request.slot for request in ready], device=self.device)
        self.slots[:count].copy_(slots)
        self.graphs[size].replay()
        for request, token in zip(ready, self.last[slots].unbind(), strict=True):
            request.tokens.append(token)


def serve(engine: Engine, waiting: deque[Request]) -> list[Request]:
    free, active, done = deque(range(SLOTS)), [], []
    tick = 0
    while waiting or active:
        arriving = 3 if tick % 8 < 4 else 0
        for _ in range(min(arriving, len(free), len(waiting))):
            request = waiting.popleft()
            request.slot = free.popleft()
            engine.admit(request)
            active.append(request)
        # A client that reads slowly makes its request pause now and then.
        ready = [one for one in active if (tick + one.number) % 4]
        if ready:
            engine.decode(ready)
        for request in [one for one in active if len(one.tokens) == one.length]:
            active.remove(request)
            free.appendleft(request.slot)
            done.append(request)
        tick += 1
    return done


@torch.no_grad()
def main() -> None:
    torch.manual_seed(27)
    engine = Engine(torch.device("cuda"))
    waiting = deque(Request(number, number * 5 % VOCAB, 3 + number * 7 % 10) for number in range(REQUESTS))
    done = sorted(serve(engine, waiting), key=lambda request: request.number)
    for request in done[::6]:
        print(request.number, torch.stack(request.tokens).tolist())


if __name__ == "__main__":
    main()
