"""Two-tower retrieval whose item corpus and weights are refreshed in place while queries are served."""
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Layout:
    features: int = 12
    dim: int = 16
    items: int = 200
    rank: int = 2
    top: int = 5
    batches: tuple = (4, 8)


class Tower(nn.Module):
    """The last layer is folded: base weight plus a low-rank correction per market."""

    def __init__(self, layout):
        super().__init__()
        self.inp = nn.Linear(layout.features, 32)
        self.register_buffer("base", torch.randn(layout.dim, 32) / 6)
        self.register_buffer("up", torch.zeros(layout.dim, layout.rank))
        self.register_buffer("down", torch.zeros(layout.rank, 32))
        self.register_buffer("folded", torch.zeros(layout.dim, 32))

    @torch.no_grad()
    def fold(self):
        torch.addmm(self.base, self.up, self.down, out=self.folded)

    def forward(self, x):
        return F.normalize(F.linear(F.silu(self.inp(x)), self.folded), dim=-1)


class Corpus:
    def __init__(self, tower, layout, device):
        self.tower = tower
        self.features = torch.randn(layout.items, layout.features, device=device)
        self.vectors = torch.zeros(layout.items, layout.dim, device=device)
        self.live = torch.ones(layout.items, dtype=torch.bool, device=device)

    def rebuild(self):
        self.vectors.copy_(self.tower(self.features))

    def retire(self, first, last):
        self.live[first:last].fill_(False)


class QueryGraph:
    def __init__(self, tower, corpus, rows, layout, device, stream, pool):
        self.rows = rows
        self.x = torch.zeros(rows, layout.features, device=device)
        self.tower, self.corpus, self.top = tower, corpus, layout.top
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._search()
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool, stream=stream):
            self.scores, self.items = self._search()

    def _search(self):
        scores = self.tower(self.x) @ self.corpus.vectors.T
        return scores.masked_fill(~self.corpus.live, -2.0).topk(self.top)

    def __call__(self, x):
        n = x.shape[0]
        self.x[:n].copy_(x)
        self.x[n:].zero_()
        self.graph.replay()
        return self.scores[:n].clone(), self.items[:n].clone()


class RetrievalServer:
    def __init__(self, layout, device):
        torch.manual_seed(6)
        self.layout, self.device = layout, device
        self.lock = threading.Lock()
        self.users = Tower(layout).to(device).eval().requires_grad_(False)
        self.items = Tower(layout).to(device).eval().requires_grad_(False)
        for tower in (self.users, self.items):
            tower.fold()
        self.corpus = Corpus(self.items, layout, device)
        self.corpus.rebuild()
        self.stream = torch.cuda.Stream(device)
        self.copies = torch.cuda.Stream(device)
        pool = torch.cuda.graph_pool_handle()
        self.graphs = [QueryGraph(self.users, self.corpus, rows, layout, device, self.stream, pool)
                       for rows in sorted(layout.batches, reverse=True)]

    @contextmanager
    def _copying(self):
        main = torch.cuda.current_stream(self.device)
        self.copies.wait_stream(main)
        with torch.cuda.stream(self.copies):
            yield
        main.wait_stream(self.copies)

    @torch.inference_mode()
    def search(self, x):
        with self.lock:
            graph = [g for g in self.graphs if g.rows >= x.shape[0]][-1]
            return graph(x)

    @torch.no_grad()
    def refresh(self, user_state, item_state):
        with self.lock, self._copying():
            for tower, state in ((self.users, user_state), (self.items, item_state)):
                for name, value in tower.state_dict().items():
                    if name in state:
                        value.copy_(state[name], non_blocking=True)
                tower.fold()
            self.corpus.rebuild()


def checkpoint(tower, seed):
    gen = torch.Generator().manual_seed(seed)
    return {name: (torch.randn(v.shape, generator=gen) * 0.2).pin_memory()
            for name, v in tower.state_dict().items() if name != "folded"}


def main():
    device = torch.device("cuda")
    layout = Layout()
    server = RetrievalServer(layout, device)
    versions = [(checkpoint(server.users, s), checkpoint(server.items, s + 50)) for s in (1, 2)]
    found = []
    for i in range(12):
        if i % 5 == 4:
            server.refresh(*versions[i // 5])
            server.corpus.retire(10 * i, 10 * i + 5)
        found.append(server.search(torch.randn(1 + 3 * i % 8, layout.features, device=device)))
    for scores, items in found:
        print(items[0].tolist(), round(scores[0, 0].item(), 4))


if __name__ == "__main__":
    main()
