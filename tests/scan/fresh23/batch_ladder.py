"""Decode loop with a ladder of batch sizes; finished sequences leave the batch, new ones enter."""
import bisect
from collections import deque

import torch
from torch import nn

LADDER = [1, 2, 4, 6]
SLOTS, LENGTH, VOCAB = 6, 24, 50
SPARE = SLOTS


class Model(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.lm = nn.Linear(width, VOCAB)
        self.register_buffer("kv", torch.zeros(2, SLOTS + 1, LENGTH, width))

    def forward(self, meta, temperature):
        token, slot, pos = meta.unbind(0)
        q, k, v = self.qkv(self.emb(token)).chunk(3, -1)
        self.kv[0, slot, pos] = k
        self.kv[1, slot, pos] = v
        grid = torch.arange(LENGTH, device=meta.device)
        score = (self.kv[0, slot] @ q[..., None]).squeeze(-1)
        prob = score.masked_fill(grid > pos[:, None], float("-inf")).softmax(-1)
        logits = self.lm((prob[:, None] @ self.kv[1, slot]).squeeze(1))
        noise = torch.empty_like(logits).exponential_()
        picked = (torch.softmax(logits / temperature, -1) / noise).argmax(-1)
        return logits.logsumexp(-1), picked


class Rung:
    """One captured size with its own static input."""

    def __init__(self, model, size, temperature, stream, pool):
        self.size = size
        self.meta = torch.zeros(3, size, dtype=torch.long, device=temperature.device)
        self.meta[1].fill_(SPARE)
        self.upload = torch.zeros(3, size, dtype=torch.long, pin_memory=True)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            model(self.meta, temperature)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream, pool=pool):
            self.evidence, self.picked = model(self.meta, temperature)


class Decoder:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model
        self.temperature = torch.ones((), device=device)
        self.next_host = torch.zeros(LADDER[-1], dtype=torch.long, pin_memory=True)
        self.arrived = torch.cuda.Event()
        stream, pool = torch.cuda.Stream(self.device), torch.cuda.graph_pool_handle()
        self.rungs = [Rung(model, s, self.temperature, stream, pool) for s in reversed(LADDER)][::-1]
        self.evidence = []

    def cool(self, value):
        self.temperature.fill_(value)

    def step(self, rows):
        rung = self.rungs[bisect.bisect_left(LADDER, len(rows))]
        spare = [(0, SPARE, 0)] * (rung.size - len(rows))
        rung.upload.copy_(torch.tensor([*rows, *spare]).T)
        rung.meta.copy_(rung.upload, non_blocking=True)
        rung.graph.replay()
        self.evidence.append(rung.evidence[: len(rows)].clone())
        self.next_host[: rung.size].copy_(rung.picked, non_blocking=True)
        self.arrived.record()
        self.arrived.synchronize()
        return self.next_host[: len(rows)].tolist()


def serve(decoder, requests):
    queue, free, live, done = deque(enumerate(requests)), list(range(SLOTS)), [], {}
    ticks = 0
    while queue or live:
        while queue and free:
            rid, (first, budget) = queue.popleft()
            live.append({"id": rid, "slot": free.pop(), "out": [first], "budget": budget})
        tokens = decoder.step([(r["out"][-1], r["slot"], len(r["out"]) - 1) for r in live])
        for r, token in zip(live, tokens):
            r["out"].append(token)
        for r in [r for r in live if len(r["out"]) > r["budget"]]:
            done[r["id"]] = r["out"]
            free.append(r["slot"])
            live.remove(r)
        ticks += 1
        if ticks == 5:
            decoder.cool(0.6)
    return done


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(12)
    decoder = Decoder(Model().to(device), device)
    out = serve(decoder, [(i % VOCAB, 3 + i % 5) for i in range(15)])
    for rid in sorted(out):
        print(rid, out[rid])
    print("evidence", torch.cat(decoder.evidence).mean().item())


if __name__ == "__main__":
    main()
