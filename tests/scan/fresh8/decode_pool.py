"""Decode steps for up to 32 lanes, one recorded graph for each padded size."""
from __future__ import annotations

import logging
from dataclasses import dataclass, field

import torch
from torch import nn

log = logging.getLogger("decode")
SIZES = (4, 8, 16, 32)


class Recurrent(nn.Module):
    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocab)


@dataclass
class Job:
    lane: int
    todo: int
    done: int = 0
    pieces: list[torch.Tensor] = field(default_factory=list)


class Pool:
    """Lane `lanes` is a scratch lane that padding rows work on."""

    def __init__(self, model: Recurrent, lanes: int, device: torch.device):
        self.model = model.to(device).eval()
        self.device = device
        self.scratch = lanes
        width = model.cell.hidden_size
        self.state = torch.zeros(lanes + 1, width, device=device)
        self.last = torch.zeros(lanes + 1, dtype=torch.int64, device=device)
        self.lane = torch.full((SIZES[-1],), lanes, dtype=torch.int64, device=device)
        self.dice = torch.Generator(device=device)
        self.dice.manual_seed(99)
        self.tapes: dict[int, torch.cuda.CUDAGraph] = {}
        self.results: dict[int, torch.Tensor] = {}

    def _advance(self, rows: int) -> torch.Tensor:
        lane = self.lane[:rows]
        h = self.model.cell(self.model.embed(self.last[lane]), self.state[lane])
        noise = torch.empty_like(h).normal_(generator=self.dice)
        token = self.model.head(h + 0.01 * noise).argmax(-1)
        self.state.index_copy_(0, lane, h)
        self.last.index_copy_(0, lane, token)
        return token

    @torch.no_grad()
    def record(self) -> None:
        stream = torch.cuda.Stream(self.device)
        pool = None
        for rows in sorted(SIZES, reverse=True):
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self._advance(rows)
            torch.cuda.current_stream(self.device).wait_stream(stream)
            tape = torch.cuda.CUDAGraph()
            tape.register_generator_state(self.dice)
            with torch.cuda.graph(tape, pool=pool, stream=stream):
                self.results[rows] = self._advance(rows)
            pool = tape.pool()
            self.tapes[rows] = tape
        torch.cuda.synchronize(self.device)
        log.info("recorded %d sizes", len(self.tapes))

    def turn(self, jobs: list[Job]) -> None:
        count = len(jobs)
        rows = min(s for s in SIZES if s >= count)
        lanes = [job.lane for job in jobs] + [self.scratch] * (rows - count)
        fresh = torch.tensor(lanes, dtype=torch.int64).pin_memory()
        self.lane[:rows].copy_(fresh, non_blocking=True)
        self.tapes[rows].replay()
        token = self.results[rows].clone()
        for i, job in enumerate(jobs):
            job.pieces.append(token[i : i + 1])
            job.done += 1


def run(pool: Pool, jobs: list[Job]) -> dict[int, list[int]]:
    finished: list[Job] = []
    turns = 0
    while jobs:
        pool.turn(jobs)
        turns += 1
        finished += [job for job in jobs if job.done >= job.todo]
        jobs = [job for job in jobs if job.done < job.todo]
        if turns % 100 == 0:
            log.info("turn %d, %d jobs left", turns, len(jobs))
    return {job.lane: torch.cat(job.pieces).tolist() for job in finished}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    torch.cuda.set_device(0)
    decode = Pool(Recurrent(300, 64), 32, torch.device("cuda", 0))
    decode.record()
    print(run(decode, [Job(lane, todo=10 + lane) for lane in range(32)]))
