"""Continuous batching over a small scorer: requests wait in lanes, each lane shape is captured once."""
import heapq
import itertools
import logging
import threading

import torch
import torch.nn as nn

log = logging.getLogger("lanes")


class Scorer(nn.Module):
    def __init__(self, vocab=1000, width=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, width, padding_idx=0)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, ids, pooling):
        h, _ = self.mix(self.emb(ids))
        live = (ids != 0).unsqueeze(-1)
        if pooling == "mean":
            z = (h * live).sum(1) / live.sum(1).clamp(min=1)
        else:
            z = h.masked_fill(~live, -1e4).amax(1)
        return self.head(z)


class Lane:
    def __init__(self, ids, out, graph):
        self.ids, self.out, self.graph = ids, out, graph


class LaneTable:
    WIDTHS = (16, 64, 256)

    def __init__(self, model, device, rows=8):
        self.model, self.device, self.rows = model, device, rows
        self._lanes = {}
        self._lock = threading.Lock()
        self.eager = set()

    def width_of(self, n):
        return min(w for w in self.WIDTHS if w >= n)

    def lane(self, width, pooling):
        with self._lock:
            key = (self.rows, width)
            if key not in self._lanes:
                self._lanes[key] = self._make(width, pooling)
            return self._lanes[key]

    def _make(self, width, pooling):
        ids = torch.zeros(self.rows, width, dtype=torch.long, device=self.device)
        s = torch.cuda.Stream(self.device)
        s.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(s):
            for _ in range(3):
                out = self.model(ids, pooling)
        torch.cuda.current_stream(self.device).wait_stream(s)
        g = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(g):
                out = self.model(ids, pooling)
        except RuntimeError:
            self.eager.add(width)
            return Lane(ids, out, None)
        return Lane(ids, out, g)

    def run(self, texts, pooling):
        width = self.width_of(max(map(len, texts)))
        lane = self.lane(width, pooling)
        host = torch.zeros(self.rows, width, dtype=torch.long).pin_memory()
        for i, t in enumerate(texts):
            host[i, :len(t)] = torch.tensor(t)
        lane.ids.copy_(host, non_blocking=True)
        if lane.graph is None:
            return self.model(lane.ids, pooling)[:len(texts)]
        lane.graph.replay()
        return lane.out[:len(texts)].clone()


class Scheduler:
    def __init__(self, table):
        self.table, self.queue, self._n = table, [], itertools.count()

    def submit(self, tokens, pooling="mean", priority=1):
        heapq.heappush(self.queue, (priority, next(self._n), pooling, tokens))

    def tick(self):
        if not self.queue:
            return None
        pooling, texts = self.queue[0][2], []
        while self.queue and len(texts) < self.table.rows and self.queue[0][2] == pooling:
            texts.append(heapq.heappop(self.queue)[3])
        scores = self.table.run(texts, pooling)
        torch.cuda.synchronize(self.table.device)
        return scores


@torch.inference_mode()
def main():
    dev = torch.device("cuda", torch.cuda.current_device())
    sched = Scheduler(LaneTable(Scorer().to(dev).eval(), dev))
    for i in range(40):
        sched.submit(list(range(1, 5 + 3 * i)), pooling=("mean", "max")[i % 3 == 0])
    done = []
    while (scores := sched.tick()) is not None:
        done.append(scores)
    log.info("scored %d", sum(len(d) for d in done))
    return torch.cat(done).argmax(-1).cpu()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
