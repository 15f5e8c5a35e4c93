"""Embedding workers: one process a GPU, requests and answers over queues."""
from __future__ import annotations

import functools
import queue
from typing import NamedTuple

import torch
import torch.multiprocessing as mp
from torch import nn

VOCAB, DIM, ROWS = 1000, 64, 4


class Job(NamedTuple):
    ident: int
    ids: torch.Tensor


class SentenceEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.ffn = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, ids: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        h = self.tok(ids)
        q, k, v = self.qkv(h).chunk(3, -1)
        weight = (q @ k.mT * DIM**-0.5 + bias).softmax(-1)
        h = h + weight @ v
        h = h + self.ffn(h)
        return nn.functional.normalize(h.mean(1), dim=-1)


class Captured(NamedTuple):
    ids: torch.Tensor
    graph: torch.cuda.CUDAGraph
    out: torch.Tensor


class EncoderWorker:
    def __init__(self, rank: int, device: torch.device):
        torch.manual_seed(0)
        self.rank = rank
        self.device = device
        self.model = SentenceEncoder().to(device).train(False)

    def locality_bias(self, length: int) -> torch.Tensor:
        at = torch.arange(length, device=self.device, dtype=torch.float32)
        return -0.1 * (at[:, None] - at[None, :]).abs()

    @functools.lru_cache(maxsize=4)
    def captured(self, length: int) -> Captured:
        ids = torch.zeros(ROWS, length, dtype=torch.long, device=self.device)
        bias = self.locality_bias(length)
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(ids, bias)
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.model(ids, bias)
        return Captured(ids, graph, out)

    @torch.no_grad()
    def encode(self, ids: torch.Tensor) -> torch.Tensor:
        step = self.captured(ids.shape[1])
        step.ids.copy_(ids, non_blocking=True)
        step.graph.replay()
        return step.out.clone()


def serve(rank: int, inbox, outbox, world: int) -> None:
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    worker = EncoderWorker(rank, device)
    while True:
        try:
            job: Job | None = inbox.get(timeout=30)
        except queue.Empty:
            continue
        if job is None:
            return
        outbox.put((job.ident, worker.encode(job.ids)))


def requests(count: int):
    gen = torch.Generator().manual_seed(1)
    for i in range(count):
        length = 3 + (7 * i) % 61
        yield Job(i, torch.randint(0, VOCAB, (ROWS, length), generator=gen).pin_memory())


def main(world: int = 2, count: int = 64) -> int:
    ctx = mp.get_context("spawn")
    inboxes, outbox = [ctx.Queue() for _ in range(world)], ctx.Queue()
    procs = [ctx.Process(target=serve, args=(r, inboxes[r], outbox, world)) for r in range(world)]
    for p in procs:
        p.start()
    for job in requests(count):
        inboxes[job.ident % world].put(job)
    answers = dict(outbox.get() for _ in range(count))
    for box in inboxes:
        box.put(None)
    for p in procs:
        p.join()
    return len(answers)


if __name__ == "__main__":
    print(main())
