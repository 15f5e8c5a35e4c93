"""A paged scheduler: tables live on the host, a pinned copy feeds the captured step."""
from collections import deque
from typing import Deque, Dict, List

import numpy as np
import torch
from torch import nn


class BlockAllocator:
    def __init__(self, blocks: int):
        self.free = torch.arange(blocks, dtype=torch.int64)
        self.head = 0

    def take(self) -> int:
        block = self.free[self.head].item()
        self.head += 1
        return block

    def give(self, blocks: List[int]) -> None:
        self.head -= len(blocks)
        self.free[self.head : self.head + len(blocks)] = torch.tensor(blocks)


class Sequence:
    def __init__(self, uid: int, length: int):
        self.uid = uid
        self.length = length
        self.blocks: List[int] = []


class HostTables:
    """Built anew by the scheduler each round, in ordinary memory."""

    def __init__(self, rows: int, width: int):
        self.table = torch.full((rows, width), -1, dtype=torch.int64)
        self.lengths = torch.zeros(rows, dtype=torch.int64)

    def describe(self) -> str:
        busy = self.lengths[self.lengths > 0]
        return f"{len(busy)} rows, longest {int(busy.max()) if len(busy) else 0}, {self.table.unique().numel()} blocks"


class Gather(nn.Module):
    def __init__(self, blocks: int, page: int, width: int):
        super().__init__()
        self.register_buffer("pages", torch.randn(blocks, page, width))
        self.mix = nn.Linear(width, width)

    def forward(self, table, lengths):
        picked = self.pages[table.clamp_min(0)].flatten(1, 2)
        steps = torch.arange(picked.shape[1], device=picked.device)
        keep = (steps < lengths[:, None]).unsqueeze(-1)
        return self.mix((picked * keep).sum(1) / lengths.clamp_min(1)[:, None])


class PagedRunner:
    def __init__(self, rows=8, width=4, page=16, blocks=64, device=torch.device("cuda", 0)):
        self.page, self.rows = page, rows
        self.allocator = BlockAllocator(blocks)
        self.host = HostTables(rows, width)
        self.staging = [torch.zeros(rows, width + 1, dtype=torch.int64, pin_memory=True) for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)]
        self.static = torch.zeros(rows, width + 1, dtype=torch.int64, device=device)
        self.model = Gather(blocks, page, 32).to(device).eval()
        self.running: Dict[int, Sequence] = {}
        self.waiting: Deque[Sequence] = deque()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad():
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.model(self.static[:, :-1], self.static[:, -1])
            torch.cuda.current_stream(device).wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.out = self.model(self.static[:, :-1], self.static[:, -1])

    def schedule(self) -> None:
        while self.waiting and len(self.running) < self.rows:
            row = next(r for r in range(self.rows) if r not in self.running)
            self.running[row] = self.waiting.popleft()
        for row, seq in self.running.items():
            while len(seq.blocks) * self.page <= seq.length:
                seq.blocks.append(self.allocator.take())
            self.host.table[row, : len(seq.blocks)] = torch.tensor(seq.blocks)
            self.host.lengths[row] = seq.length
            seq.length += 1

    def step(self, k: int) -> torch.Tensor:
        self.schedule()
        if self.host.lengths.max() >= self.page * self.host.table.shape[1]:
            raise RuntimeError(f"a sequence is too long: {self.host.lengths.tolist()}")
        staging = self.staging[k % 2]
        if k >= 2 and not self.copied[k % 2].query():
            self.copied[k % 2].synchronize()
        staging[:, :-1].copy_(self.host.table)
        staging[:, -1].copy_(self.host.lengths)
        self.static.copy_(staging, non_blocking=True)
        self.copied[k % 2].record()
        self.graph.replay()
        return self.out.clone()


def drive(rounds=12):
    runner = PagedRunner()
    runner.waiting.extend(Sequence(i, int(n)) for i, n in enumerate(np.random.randint(1, 30, 12)))
    outs = [runner.step(k) for k in range(rounds)]
    print(runner.host.describe(), torch.stack(outs).std().item())


if __name__ == "__main__":
    drive()
