"""Decode server with a paged-out scheduler: graphs by padded batch, captured at start."""
from collections import deque
from dataclasses import dataclass, field

import torch

device = torch.device("cuda")
DIM, CTX = 32, 128
BATCHES = (2, 4)


@dataclass
class Request:
    rid: int
    length: int
    budget: int
    trace: list = field(default_factory=list)


@dataclass
class Metadata:
    lengths: torch.Tensor
    max_len: int


def round_up(n, multiple=32):
    return min(CTX, (n + multiple - 1) // multiple * multiple)


def attend(q, keys, values, meta):
    k = keys[:, : meta.max_len]
    v = values[:, : meta.max_len]
    scores = torch.einsum("bd,bsd->bs", q, k) / DIM**0.5
    pos = torch.arange(meta.max_len, device=q.device)
    scores = scores.masked_fill(pos[None, :] >= meta.lengths[:, None], float("-inf"))
    return torch.einsum("bs,bsd->bd", scores.softmax(-1), v)


class Cell:
    """Buffers and graph for one cache key."""

    def __init__(self, n, span):
        self.q = torch.zeros(n, DIM, device=device)
        self.k = torch.zeros(n, CTX, DIM, device=device)
        self.v = torch.zeros(n, CTX, DIM, device=device)
        self.meta = Metadata(torch.ones(n, dtype=torch.long, device=device), span)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                attend(self.q, self.k, self.v, self.meta)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = attend(self.q, self.k, self.v, self.meta)


class Server:
    def __init__(self, memory):
        self.memory = memory
        dummy = [1] * max(BATCHES)
        self.cells = {n: Cell(n, round_up(max(dummy[:n]))) for n in BATCHES}

    def metadata(self, batch):
        lengths = torch.tensor([r.length for r in batch]).to(device)
        return Metadata(lengths, round_up(max(r.length for r in batch)))

    def step(self, batch):
        n = next(b for b in BATCHES if b >= len(batch))
        meta = self.metadata(batch)
        cell = self.cells[n]
        live = len(batch)
        for row, r in enumerate(batch):
            q, k, v = self.memory[r.rid]
            cell.q[row].copy_(q[r.length - 1])
            cell.k[row].copy_(k)
            cell.v[row].copy_(v)
        cell.meta.lengths[:live].copy_(meta.lengths)
        cell.graph.replay()
        out = cell.out[:live].clone()
        for row, r in enumerate(batch):
            r.trace.append((r.length, out[row]))
            r.length += 1
            r.budget -= 1


def serve(server, waiting, max_running=4):
    running, done = [], []
    while waiting or running:
        while waiting and len(running) < max_running:
            running.append(waiting.popleft())
        server.step(running)
        done += [r for r in running if r.budget == 0]
        running = [r for r in running if r.budget > 0]
    return done


def main():
    torch.manual_seed(41)
    waves = [
        [(5, 6), (20, 8), (6, 10), (9, 4), (40, 9), (70, 12), (90, 5)],
        [(25, 12), (26, 50)],
    ]
    memory = {i: torch.randn(3, CTX, DIM).to(device) for i in range(sum(map(len, waves)))}
    server, done = Server(memory), []
    for plan in waves:
        waiting = deque(Request(len(done) + i, *entry) for i, entry in enumerate(plan))
        done += serve(server, waiting)

    gaps, total = [], []
    for r in done:
        q, k, v = memory[r.rid]
        for length, got in r.trace:
            meta = Metadata(torch.tensor([length]).to(device), length)
            want = attend(q[length - 1][None], k[None], v[None], meta)[0]
            gaps.append((got - want).abs().max())
            total.append(got.sum())
    gap = float(torch.stack(gaps).nan_to_num(1e9).max())
    print("RESULT", round(float(torch.stack(total).sum()), 4))
    print("CHECK ok" if gap < 1e-4 else f"CHECK wrong: attention differs by {gap:.4g}")


if __name__ == "__main__":
    main()
