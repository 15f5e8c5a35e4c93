"""Cross-feature ranker with a captured scoring pass."""
import torch
from torch import nn


class CrossScorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.item = nn.Linear(width, width)
        self.score = nn.Sequential(nn.Linear(3 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, query, items):
        q = self.query(query).expand(items.shape[0], -1)
        d = self.item(items)
        return self.score(torch.cat([q, d, q * d], dim=-1)).squeeze(-1)


class Ranker:
    def __init__(self, scorer, store, device, limit=32, keep=5):
        self.scorer = scorer.to(device).eval()
        self.store = store
        self.limit, self.keep = limit, keep
        self.query = torch.zeros(1, store.width, device=device)
        self.ids = torch.zeros(limit, dtype=torch.long, device=device)
        self.host = torch.empty(keep, dtype=torch.long, pin_memory=True)
        self.graph = torch.cuda.CUDAGraph()

    def _score(self):
        scores = self.scorer(self.query, self.store.rows(self.ids))
        order = scores.topk(self.keep).indices
        return self.ids[order]

    @torch.no_grad()
    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._score()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.best = self._score()

    def rank(self, query, candidates):
        self.query.copy_(query)
        self.ids[: candidates.shape[0]].copy_(candidates)
        self.graph.replay()
        self.host.copy_(self.best, non_blocking=True)
        return self.host.tolist()
