from __future__ import annotations

import queue
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch


@dataclass
class Job:
    ids: list[int]
    future: Future = field(default_factory=Future)


class StaticBatch:
    """The device side of one micro-batch."""

    def __init__(self, rows: int, length: int, device):
        self.ids = torch.zeros(rows, length, dtype=torch.long, device=device)
        self.mask = torch.zeros(rows, length, dtype=torch.bool, device=device)
        self.mask[:, 0] = True

    def fill(self, jobs: list[Job]) -> None:
        self.ids.zero_()
        for row, job in enumerate(jobs):
            host = torch.tensor(job.ids).pin_memory()
            self.ids[row, : len(job.ids)].copy_(host, non_blocking=True)
            self.mask[row, : len(job.ids)].fill_(True)


class Batcher:
    def __init__(self, rows: int, patience: float = 0.003):
        self.rows, self.patience = rows, patience
        self.jobs: queue.Queue[Job] = queue.Queue()

    def put(self, ids: list[int]) -> Future:
        job = Job(ids)
        self.jobs.put(job)
        return job.future

    def take(self) -> list[Job]:
        batch = [self.jobs.get()]
        while len(batch) < self.rows:
            try:
                batch.append(self.jobs.get(timeout=self.patience))
            except queue.Empty:
                break
        return batch
