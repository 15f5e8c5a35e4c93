"""Small continuous-batching decode server on top of bucketed CUDA graphs."""
from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

import torch
from torch import nn

BUCKETS = (1, 2, 4, 8, 16)


@dataclass
class Request:
    rid: int
    slot: int
    token: int
    pos: int = 0
    budget: int = 16
    produced: list[int] = field(default_factory=list)


class TinyDecoder(nn.Module):
    def __init__(self, vocab: int = 512, dim: int = 64, slots: int = 64, ctx: int = 128):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.register_buffer("kv", torch.zeros(slots, ctx, dim))
        self.register_buffer("span", torch.arange(ctx))

    def forward(self, tokens, slots, positions):
        h = self.embed(tokens)
        self.kv.index_put_((slots, positions), h)
        past = self.kv[slots]
        scores = torch.einsum("bd,btd->bt", h, past)
        scores = scores.masked_fill(self.span > positions[:, None], float("-inf"))
        ctx = torch.einsum("bt,btd->bd", scores.softmax(-1), past)
        return self.head(torch.tanh(self.mix(ctx + h)))


class DecodeGraph:
    def __init__(self, model: TinyDecoder, rows: int, device):
        self.model = model
        self.rows = rows
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.slots = torch.zeros(rows, dtype=torch.long, device=device)
        self.positions = torch.zeros(rows, dtype=torch.long, device=device)

    def _forward(self, greedy: bool):
        logits = self.model(self.tokens, self.slots, self.positions)
        if greedy:
            return logits.argmax(-1), logits
        race = torch.empty_like(logits).exponential_(1.0)
        return (logits.softmax(-1) / race).argmax(-1), logits

    def capture(self, greedy: bool, pool) -> "DecodeGraph":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._forward(greedy)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.next_tokens, self.logits = self._forward(greedy)
        return self


def fill(dst: torch.Tensor, values: list[int]) -> None:
    dst[: len(values)].copy_(torch.tensor(values, dtype=dst.dtype))


class DecodeServer:
    """Slot 0 is scratch, so warm-up never touches a live sequence."""

    def __init__(self, model: TinyDecoder, device, greedy: bool = True, trace: int = 64):
        self.model = model
        self.device = device
        self.greedy = greedy
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[int, DecodeGraph] = {}
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.trace: deque[torch.Tensor] = deque(maxlen=trace)

    def configure(self, *, greedy: bool) -> None:
        self.greedy = greedy

    def submit(self, req: Request) -> None:
        self.waiting.append(req)

    def _graph_for(self, n: int) -> DecodeGraph:
        rows = BUCKETS[bisect_left(BUCKETS, n)]
        if rows not in self.graphs:
            self.graphs[rows] = DecodeGraph(self.model, rows, self.device).capture(self.greedy, self.pool)
        return self.graphs[rows]

    def _admit(self) -> None:
        while self.waiting and len(self.running) < BUCKETS[-1]:
            self.running.append(self.waiting.popleft())

    @torch.no_grad()
    def step(self) -> list[Request]:
        self._admit()
        batch = self.running
        runner = self._graph_for(len(batch))
        fill(runner.tokens, [r.token for r in batch])
        fill(runner.slots, [r.slot for r in batch])
        fill(runner.positions, [r.pos for r in batch])
        runner.graph.replay()
        self.trace.append(runner.logits)
        done = []
        for req, tok in zip(batch, runner.next_tokens.tolist()):
            req.produced.append(tok)
            req.token, req.pos, req.budget = tok, req.pos + 1, req.budget - 1
            if req.budget == 0:
                done.append(req)
        self.running = [r for r in batch if r.budget]
        return done

    def serve(self) -> list[Request]:
        finished: list[Request] = []
        while self.waiting or self.running:
            finished += self.step()
        return finished


def main(device="cuda", n: int = 5):
    model = TinyDecoder().to(device).eval()
    server = DecodeServer(model, device)
    for i in range(n):
        server.submit(Request(rid=i, slot=i + 1, token=i + 3, budget=4 + i))
    out = server.serve()
    server.configure(greedy=False)
    for i in range(n):
        server.submit(Request(rid=100 + i, slot=i + 1, token=i + 3))
    return out + server.serve()


if __name__ == "__main__":
    for r in main():
        print(r.rid, r.produced)
