"""Continuous batching for a small chat model: one decode graph per batch size."""
import dataclasses
from collections import deque

import torch
from torch import nn

VOCAB, DIM, MAX_LEN, MAX_BATCH = 96, 32, 40, 8


@dataclasses.dataclass
class Request:
    rid: int
    last: int
    budget: int
    slot: int = -1
    pos: int = 0
    tokens: list = dataclasses.field(default_factory=list)
    scores: list = dataclasses.field(default_factory=list)


class TinyDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.head = nn.Linear(DIM, VOCAB)
        self.register_buffer("kcache", torch.zeros(MAX_BATCH, MAX_LEN, DIM))
        self.register_buffer("vcache", torch.zeros(MAX_BATCH, MAX_LEN, DIM))
        self.register_buffer("span", torch.arange(MAX_LEN))

    def forward(self, ids, pos, slots):
        x = self.emb(ids)
        self.kcache.index_put_((slots, pos), self.k(x))
        self.vcache.index_put_((slots, pos), self.v(x))
        keys, values = self.kcache.index_select(0, slots), self.vcache.index_select(0, slots)
        att = torch.einsum("bd,btd->bt", self.q(x), keys) * DIM**-0.5
        att = att.masked_fill(self.span[None, :] > pos[:, None], float("-inf")).softmax(-1)
        return self.head(x + self.o(torch.einsum("bt,btd->bd", att, values)))


class DecodeRunner:
    def __init__(self, model, device, sizes=(8, 4, 2, 1)):
        self.model, self.sizes = model, sizes
        self.ids = torch.zeros(MAX_BATCH, dtype=torch.long, device=device)
        self.pos = torch.zeros(MAX_BATCH, dtype=torch.long, device=device)
        self.slots = torch.zeros(MAX_BATCH, dtype=torch.long, device=device)
        self.host = torch.zeros(3, MAX_BATCH, dtype=torch.long, pin_memory=True)
        self.graphs, pool = {}, None
        stream = torch.cuda.Stream(device)
        for size in sizes:
            args = self.ids[:size], self.pos[:size], self.slots[:size]
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream):
                for _ in range(2):
                    model(*args).argmax(-1)
            torch.cuda.current_stream(device).wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                logits = model(*args)
                picked = logits.argmax(-1)
            pool = pool or graph.pool()
            self.graphs[size] = graph, logits, picked

    def step(self, batch):
        n = len(batch)
        size = min(s for s in self.sizes if s >= n)
        for i, req in enumerate(batch):
            self.host[0, i], self.host[1, i], self.host[2, i] = req.last, req.pos, req.slot
        self.ids[:n].copy_(self.host[0, :n], non_blocking=True)
        self.pos[:n].copy_(self.host[1, :n], non_blocking=True)
        self.slots[:n].copy_(self.host[2, :n], non_blocking=True)
        graph, logits, picked = self.graphs[size]
        graph.replay()
        chosen = picked[:n].tolist()
        for i, req in enumerate(batch):
            req.last = chosen[i]
            req.pos += 1
            req.tokens.append(chosen[i])
            req.scores.append(logits[i])


class Scheduler:
    def __init__(self, runner):
        self.runner, self.waiting, self.running = runner, deque(), []
        self.free = list(range(MAX_BATCH))
        self.done = []

    def tick(self):
        while self.waiting and self.free:
            req = self.waiting.popleft()
            req.slot = self.free.pop(0)
            self.running.append(req)
        self.runner.step(self.running)
        for req in [r for r in self.running if len(r.tokens) >= r.budget]:
            self.running.remove(req)
            self.free.append(req.slot)
            self.done.append(req)


def main(device="cuda"):
    torch.manual_seed(0)
    with torch.inference_mode():
        sched = Scheduler(DecodeRunner(TinyDecoder().to(device).eval(), torch.device(device)))
        arrivals = {0: 6, 7: 1, 8: 2, 10: 1, 12: 3}
        rid, tick = 0, 0
        while sched.running or sched.waiting or tick <= max(arrivals):
            for _ in range(arrivals.get(tick, 0)):
                sched.waiting.append(Request(rid, last=rid + 1, budget=5 + 4 * (rid % 4)))
                rid += 1
            sched.tick()
            tick += 1
    for req in sched.done:
        best = max(float(row.max()) for row in req.scores)
        print(req.rid, req.tokens, round(best, 3))


if __name__ == "__main__":
    main()
