from __future__ import annotations

import asyncio

import torch
from torch import nn


class CrossEncoder(nn.Module):
    def __init__(self, vocab: int = 60, dim: int = 12) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim)
        self.score = nn.Bilinear(dim, dim, 1)

    def forward(self, query: torch.Tensor, docs: torch.Tensor) -> torch.Tensor:
        q = self.embed(query).expand(docs.shape[0], -1)
        return self.score(q, self.embed(docs)).squeeze(-1)


class Reranker:
    def __init__(self, model: CrossEncoder, docs: int, words: int, device: torch.device) -> None:
        self.model = model
        self.device = device
        self.query = torch.zeros(1, words, dtype=torch.long, device=device)
        self.docs = torch.zeros(docs, words, dtype=torch.long, device=device)
        self.boost = torch.zeros(docs, device=device)
        self.stream = torch.cuda.Stream(device)
        self.best: torch.Tensor | None = None

    @torch.no_grad()
    def prepare(self) -> Reranker:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.model(self.query, self.docs) + self.boost
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.scores = self.model(self.query, self.docs) + self.boost
        return self

    async def rank(self, query: list[int], docs: torch.Tensor, pins: list[int] | None = None) -> torch.Tensor:
        self.boost.zero_()
        if pins:
            self.boost[pins] = 5.0
        self.query.copy_(torch.tensor([query]))
        self.docs.copy_(docs)
        self.graph.replay()
        await asyncio.sleep(0)
        return self.scores.argsort(descending=True)


async def client(service: Reranker, number: int, log: list) -> None:
    gen = torch.Generator(service.device).manual_seed(number)
    for turn in range(4):
        words = [(7 * number + 3 * turn + k) % 60 for k in range(5)]
        docs = torch.randint(0, 60, (6, 5), generator=gen, device=service.device)
        pins = [turn, number % 6] if turn % 2 else None
        order = await service.rank(words, docs, pins)
        log.append(order[:3])


async def serve(device: torch.device) -> list:
    torch.manual_seed(40)
    service = Reranker(CrossEncoder().to(device).eval(), docs=6, words=5, device=device).prepare()
    log: list = []
    await asyncio.gather(*(client(service, i, log) for i in range(3)))
    return log


def main() -> None:
    with torch.inference_mode(False), torch.no_grad():
        log = asyncio.run(serve(torch.device("cuda")))
    print(torch.stack(log).tolist())


if __name__ == "__main__":
    main()
