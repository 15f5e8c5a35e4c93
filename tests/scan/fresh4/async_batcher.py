"""Batch embedding requests from many coroutines into one captured encoder."""
from __future__ import annotations

import asyncio
from typing import NamedTuple

import torch
from torch import nn

PAD = 0


class Job(NamedTuple):
    ids: list[int]
    answer: asyncio.Future


class Encoder(nn.Module):
    def __init__(self, vocab: int = 200, dim: int = 32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)
        self.scale = nn.Parameter(torch.ones(dim))

    def pool(self, ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        real = (ids != PAD).unsqueeze(-1)
        total = states.masked_fill(~real, 0.0).sum(1)
        return total / real.sum(1).clamp_min(1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = torch.tanh(self.mix(self.embed(ids)))
        return nn.functional.normalize(self.pool(ids, states), dim=-1) * self.scale


class Batcher:
    def __init__(self, encoder: Encoder, rows: int = 8, width: int = 16, device: str = "cuda"):
        self.encoder = encoder
        self.rows, self.width = rows, width
        self.jobs: asyncio.Queue[Job] = asyncio.Queue()
        self.ids = torch.full((rows, width), PAD, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()

    @torch.inference_mode()
    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.encoder(self.ids)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.out = self.encoder(self.ids)

    async def embed(self, ids: list[int]) -> torch.Tensor:
        job = Job(ids[: self.width], asyncio.get_running_loop().create_future())
        await self.jobs.put(job)
        return await job.answer

    async def gather(self) -> list[Job]:
        batch = [await self.jobs.get()]
        while len(batch) < self.rows and not self.jobs.empty():
            batch.append(self.jobs.get_nowait())
        return batch

    def pack(self, batch: list[Job]) -> torch.Tensor:
        rows = [job.ids + [PAD] * (self.width - len(job.ids)) for job in batch]
        rows += [[PAD] * self.width] * (self.rows - len(batch))
        return torch.tensor(rows).pin_memory()

    async def serve(self) -> None:
        while True:
            batch = await self.gather()
            self.ids.copy_(self.pack(batch), non_blocking=True)
            self.graph.replay()
            for job, row in zip(batch, self.out.clone()):
                job.answer.set_result(row)
            await asyncio.sleep(0)


async def main() -> None:
    batcher = Batcher(Encoder().to("cuda"))
    batcher.capture()
    server = asyncio.create_task(batcher.serve())
    vectors = await asyncio.gather(*(batcher.embed([i + 1, i + 2]) for i in range(40)))
    server.cancel()
    print(torch.stack(vectors).shape)


if __name__ == "__main__":
    asyncio.run(main())
