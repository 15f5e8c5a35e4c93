"""IVF-PQ search with a fixed number of probes, beside an exact scan of freshly added vectors."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class IndexShape:
    dim: int = 16
    lists: int = 12
    list_capacity: int = 20
    sub: int = 4
    codes: int = 16
    probes: int = 3
    fresh: int = 24


class ProductQuantizer:
    def __init__(self, shape, device):
        self.sub_dim = shape.dim // shape.sub
        self.books = torch.randn(shape.sub, shape.codes, self.sub_dim, device=device)

    def distance_table(self, residual):
        parts = residual.unflatten(-1, (-1, self.sub_dim))
        return (parts.unsqueeze(-2) - self.books).square().sum(-1)


class InvertedLists:
    def __init__(self, shape, device):
        self.centroids = torch.randn(shape.lists, shape.dim, device=device)
        self.codes = torch.randint(0, shape.codes, (shape.lists, shape.list_capacity, shape.sub), device=device)
        self.ids = torch.arange(shape.lists * shape.list_capacity, device=device).view(shape.lists, -1)
        self.sizes = torch.randint(4, shape.list_capacity + 1, (shape.lists,), device=device)
        self.slots = torch.arange(shape.list_capacity, device=device)

    def nearest(self, queries, probes):
        distance = torch.cdist(queries, self.centroids, compute_mode="donot_use_mm_for_euclid_dist")
        return distance.topk(probes, largest=False).indices


class FreshVectors:
    """A ring of vectors that are not yet in the lists; empty places are far away."""

    def __init__(self, shape, device):
        self.vectors = torch.randn(shape.fresh, shape.dim, device=device)
        self.valid = torch.zeros(shape.fresh, dtype=torch.bool, device=device)
        self.valid[: shape.fresh // 2] = True
        self.first_id = shape.lists * shape.list_capacity
        self.ids = torch.arange(self.first_id, self.first_id + shape.fresh, device=device)

    def scan(self, queries):
        d = (queries.unsqueeze(1) - self.vectors).square().sum(-1)
        return d.masked_fill(~self.valid, float("inf"))


class Searcher:
    def __init__(self, shape, device):
        torch.manual_seed(4)
        self.shape = shape
        self.device = device
        self.pq = ProductQuantizer(shape, device)
        self.lists = InvertedLists(shape, device)
        self.fresh = FreshVectors(shape, device)
        self.side = torch.cuda.Stream(device)
        self.hits = torch.zeros(shape.lists, dtype=torch.long, device=device)

    def probe(self, queries):
        lists = self.lists.nearest(queries, self.shape.probes)
        self.hits.scatter_add_(0, lists.reshape(-1), torch.ones_like(lists).reshape(-1))
        residual = queries.unsqueeze(1) - self.lists.centroids[lists]
        table = self.pq.distance_table(residual)
        codes = self.lists.codes[lists]
        per_sub = table.unsqueeze(2).expand(-1, -1, codes.shape[2], -1, -1).gather(-1, codes.unsqueeze(-1))
        distance = per_sub.squeeze(-1).sum(-1)
        filled = self.lists.slots < self.lists.sizes[lists].unsqueeze(-1)
        distance = torch.where(filled, distance, torch.full_like(distance, float("inf")))
        return distance.flatten(1), self.lists.ids[lists].flatten(1)

    @torch.no_grad()
    def search(self, queries, denied, k=5):
        main = torch.cuda.current_stream(self.device)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            recent = self.fresh.scan(queries)
        old, ids = self.probe(queries)
        main.wait_stream(self.side)
        distance = torch.cat([old, recent], 1)
        all_ids = torch.cat([ids, self.fresh.ids.expand(queries.shape[0], -1)], 1)
        hidden = (all_ids.unsqueeze(-1) == denied).any(-1)
        best = distance.masked_fill(hidden, float("inf")).topk(k, largest=False)
        return best.values, all_ids.gather(1, best.indices)


def build(device, queries=4):
    shape = IndexShape()
    searcher = Searcher(shape, device)
    total = shape.lists * shape.list_capacity + shape.fresh
    batch = torch.randn(queries, shape.dim, device=device)
    denied = torch.randint(0, total, (6,), device=device)
    return searcher.search, (batch, denied)
