"""An asyncio server: coroutines share one recorded classifier and wait for the device without blocking the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

LENGTH, VOCAB, DIM, INTENTS, CLIENTS, EACH, ROWS = 16, 200, 64, 12, 4, 8, 6


@dataclass(frozen=True)
class Answer:
    client: int
    number: int
    intents: tuple[int, ...]


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.mix = nn.GRUCell(DIM, DIM)
        self.head = nn.Linear(DIM, INTENTS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(ids.shape[0], DIM, device=ids.device)
        for x in self.embed(ids).unbind(1):
            state = self.mix(x, state)
        return self.head(state)


class Engine:
    def __init__(self, device: torch.device) -> None:
        self.model = Classifier().to(device).eval()
        self.ids = torch.zeros(ROWS, LENGTH, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            self.model(self.ids)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.logits = self.model(self.ids)

    @staticmethod
    async def landed() -> None:
        """Let other coroutines run until the device has done what was launched so far."""
        event = torch.cuda.Event()
        event.record()
        await asyncio.sleep(0)
        while not event.query():
            await asyncio.sleep(0.0005)

    async def classify(self, ids: torch.Tensor) -> list[int]:
        self.ids.copy_(ids)
        self.graph.replay()
        best = self.logits.argmax(-1)
        await self.landed()
        return best.tolist()


def requests(client: int) -> Iterator[torch.Tensor]:
    draw = torch.Generator().manual_seed(client)
    for _ in range(EACH):
        yield torch.randint(VOCAB, (ROWS, LENGTH), generator=draw)


async def serve(engine: Engine, client: int, answers: list[Answer]) -> None:
    for number, ids in enumerate(requests(client)):
        intents = await engine.classify(ids)
        answers.append(Answer(client, number, tuple(intents)))
        await asyncio.sleep(0)


async def run(engine: Engine) -> list[Answer]:
    answers: list[Answer] = []
    await asyncio.gather(*(serve(engine, client, answers) for client in range(CLIENTS)))
    return sorted(answers, key=lambda answer: (answer.client, answer.number))


def main() -> None:
    torch.manual_seed(9)
    engine = Engine(torch.device("cuda"))
    answers = asyncio.run(run(engine))
    print(len(answers), "answers;", len({answer.intents for answer in answers}), "differ")
    for answer in answers[::EACH]:
        print(answer.client, answer.intents)


if __name__ == "__main__":
    main()
