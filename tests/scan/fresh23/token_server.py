"""Continuous batching for a toy decoder. Decode runs from one captured graph per batch size."""
from __future__ import annotations

import collections
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

BATCH_SIZES = (2, 4, 8)
MAX_SLOTS = 8
MAX_LEN = 48
EOS = 1


@dataclasses.dataclass
class Request:
    rid: int
    prompt: list[int]
    budget: int
    slot: int = -1
    tokens: list[int] = dataclasses.field(default_factory=list)
    rows: list[torch.Tensor] = dataclasses.field(default_factory=list)

    @property
    def position(self) -> int:
        return len(self.prompt) + len(self.tokens) - 1


class Decoder(nn.Module):
    def __init__(self, vocab: int, dim: int, device):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, device=device)
        self.qkv = nn.Linear(dim, 3 * dim, device=device)
        self.head = nn.Linear(dim, vocab, device=device)
        self.register_buffer("k", torch.zeros(MAX_SLOTS, MAX_LEN, dim, device=device))
        self.register_buffer("v", torch.zeros(MAX_SLOTS, MAX_LEN, dim, device=device))
        self.register_buffer("steps", torch.arange(MAX_LEN, device=device))
        self.temperature = 1.0

    def forward(self, tokens, slots, positions):
        q, k, v = self.qkv(self.embed(tokens)).chunk(3, dim=-1)
        self.k[slots, positions] = k
        self.v[slots, positions] = v
        scores = torch.einsum("bd,bld->bl", q, self.k[slots])
        scores = scores.masked_fill(self.steps > positions[:, None], -1e9)
        ctx = torch.einsum("bl,bld->bd", scores.softmax(-1), self.v[slots])
        logits = self.head(ctx)
        noise = -torch.log(-torch.log(torch.rand_like(logits).clamp_(1e-6, 1 - 1e-6)))
        return logits, (logits / self.temperature + noise).argmax(-1)


class GraphRunner:
    def __init__(self, model: Decoder, device: torch.device):
        self.model, self.device = model, device
        self.stream = torch.cuda.Stream(device)
        top = BATCH_SIZES[-1]
        self.tokens = torch.zeros(top, dtype=torch.long, device=device)
        self.slots = torch.zeros(top, dtype=torch.long, device=device)
        self.positions = torch.zeros(top, dtype=torch.long, device=device)
        self.staging = torch.zeros(3, top, dtype=torch.long, pin_memory=True)
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def capture_all(self) -> None:
        for size in reversed(BATCH_SIZES):
            args = self.tokens[:size], self.slots[:size], self.positions[:size]
            self.stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self.stream):
                self.model(*args)
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                logits, picked = self.model(*args)
            self.graphs[size] = graph, logits, picked
        self.model.k.zero_()
        self.model.v.zero_()

    def step(self, tokens: list[int], slots: list[int], positions: list[int]):
        n = len(tokens)
        size = next(s for s in BATCH_SIZES if s >= n)
        self.staging[:, :n] = torch.tensor([tokens, slots, positions])
        for buffer, row in zip((self.tokens, self.slots, self.positions), self.staging):
            buffer[:n].copy_(row[:n], non_blocking=True)
        graph, logits, picked = self.graphs[size]
        graph.replay()
        return logits[:n], picked[:n]


class Scheduler:
    def __init__(self, runner: GraphRunner):
        self.runner = runner
        self.waiting: collections.deque[Request] = collections.deque()
        self.running: list[Request] = []
        self.free = list(range(MAX_SLOTS))

    def set_temperature(self, value: float) -> None:
        self.runner.model.temperature = value

    def admit(self) -> None:
        while self.waiting and self.free:
            req = self.waiting.popleft()
            req.slot = self.free.pop()
            self.running.append(req)

    def tick(self) -> list[Request]:
        self.admit()
        batch = self.running
        last = [r.tokens[-1] if r.tokens else r.prompt[-1] for r in batch]
        logits, picked = self.runner.step(last, [r.slot for r in batch], [r.position for r in batch])
        ids = picked.tolist()
        for i, (req, token) in enumerate(zip(batch, ids)):
            req.tokens.append(token)
            req.rows.append(logits[i])
        done = [r for r in batch if r.tokens[-1] == EOS or len(r.tokens) >= r.budget]
        self.running = [r for r in batch if r not in done]
        self.free.extend(r.slot for r in done)
        return done


def score(req: Request) -> float:
    table = F.log_softmax(torch.stack(req.rows), dim=-1)
    picked = torch.tensor(req.tokens, device=table.device)
    return table.gather(1, picked[:, None]).mean().item()


def main(device: str = "cuda") -> None:
    torch.manual_seed(0)
    dev = torch.device(device)
    torch.set_grad_enabled(False)
    runner = GraphRunner(Decoder(64, 16, dev), dev)
    runner.capture_all()
    scheduler = Scheduler(runner)
    for i in range(14):
        scheduler.waiting.append(Request(i, [2 + i % 7], budget=3 + i % 6))
    rounds = 0
    while scheduler.waiting or scheduler.running:
        for req in scheduler.tick():
            print(req.rid, req.tokens, round(score(req), 3))
        rounds += 1
        if rounds == 6:
            scheduler.set_temperature(0.7)


if __name__ == "__main__":
    main()
