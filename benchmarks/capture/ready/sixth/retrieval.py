"""Dense and sparse retrieval steps."""
import collections
import functools
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def build_hard_negatives(device):
    docs = F.normalize(torch.randn(200, 16, device=device), dim=1)

    def step(queries, positives):
        scores = queries @ docs.T
        mined = scores.clone()
        near = scores > (positives @ docs.T)
        mined[near] = scores[near].square()
        return mined.logsumexp(dim=1)

    return step, (torch.randn(8, 16, device=device), torch.randn(8, 16, device=device))


class MarginTower(nn.Module):
    """Scores each query against all passages and compares the passages pairwise."""

    def __init__(self, device):
        super().__init__()
        self.mix = nn.Linear(12, 12, device=device)
        self.margin = 0.2

    @torch.no_grad()
    def forward(self, query, passages):
        scores = self.mix(passages) @ query
        pairs = torch.combinations(scores, r=2)
        return F.relu(self.margin - (pairs[:, 0] - pairs[:, 1])).mean(), scores.softmax(0)


def build_margin_tower(device):
    return MarginTower(device).eval(), (torch.randn(12, device=device), torch.randn(9, 12, device=device))


class Reranker:
    def __init__(self, device):
        self.device = device
        self.coarse = torch.randn(16, 4, device=device)
        self.fine = torch.randn(16, 4, device=device)
        self.head = functools.lru_cache(maxsize=8)(self._head)

    def _head(self, width):
        return torch.linspace(0.5, 1.5, width, device=self.device)

    def __call__(self, features):
        scale = self.head(features.shape[1])
        warm = self.head.cache_info().hits > 80
        return (features * scale) @ (self.fine if warm else self.coarse)


def build_reranker(device):
    return Reranker(device), (torch.randn(12, 16, device=device),)


class QueryMemory:
    def __init__(self, width, device):
        self.past = {0: torch.zeros(width, device=device)}

    def __call__(self, query):
        recent = list(self.past.values())[-8:]
        context = torch.stack(recent).mean(0)
        self.past[len(self.past)] = query.mean(0).clone()
        return query + 0.5 * context


def build_query_memory(device):
    return QueryMemory(16, device), (torch.randn(5, 16, device=device),)


class Shard:
    def __init__(self, vectors):
        self.vectors = vectors


class ShardRouter:
    def __init__(self, device, quota=20):
        self.shards = collections.deque(Shard(torch.randn(32, 8, device=device)) for _ in range(3))
        self.quota = quota
        self.used = {id(shard): 0 for shard in self.shards}

    def __call__(self, query):
        shard = self.shards[0]
        self.used[id(shard)] += 1
        if self.used[id(shard)] >= self.quota:
            self.used[id(shard)] = 0
            self.shards.rotate(-1)
        return (query @ shard.vectors.T).softmax(-1)


def build_shard_router(device):
    return ShardRouter(device), (torch.randn(4, 8, device=device),)


def build_dedupe(device):
    weights = torch.rand(64, device=device)

    def step(hits):
        kept, counts = torch.unique(hits, return_counts=True)
        boost = weights[kept] * counts
        return boost.sum() / counts.sum()

    return step, (torch.randint(0, 64, (100,), device=device),)


class InvertedProbe:
    def __init__(self, device, cells=16, probes=4):
        self.centres = torch.randn(cells, 8, device=device)
        self.cell_of = torch.arange(160, device=device) % cells
        self.docs = torch.randn(160, 8, device=device)
        self.probes = probes

    def __call__(self, queries):
        near = (queries @ self.centres.T).topk(self.probes, dim=1).indices
        wanted = (self.cell_of.view(1, 1, -1) == near.unsqueeze(-1)).any(dim=1)
        scores = queries @ self.docs.T
        scores[~wanted] = -1e4
        return scores.topk(5, dim=1).values


def build_inverted_probe(device):
    return InvertedProbe(device), (torch.randn(6, 8, device=device),)


class TableIndex:
    """Sketches queries with one projection table per width."""

    def __init__(self, widths, device):
        self.tables = {w: torch.randn(w, 6, device=device) for w in widths}
        self.requests = collections.Counter()
        self.latest = time.time()

    def __call__(self, query):
        self.requests[query.shape[-1]] += 1
        self.latest = max(self.latest, time.time())
        if query.shape[-1] not in self.tables:
            self.tables[query.shape[-1]] = torch.zeros(query.shape[-1], 6, device=query.device)
        return torch.tanh(query @ self.tables[query.shape[-1]])


def build_table_index(device):
    return TableIndex((8, 16, 24), device), (torch.randn(7, 16, device=device),)


class FeedbackIndex:
    def __init__(self, device):
        self.docs = F.normalize(torch.randn(50, 8, device=device), dim=1)
        self.staging = torch.empty(50, 8, device=device)
        self.cursor = torch.zeros((), dtype=torch.long, device=device)

    def __call__(self, query):
        weights = (self.docs @ query).softmax(0)
        answer = weights @ self.docs
        rows = torch.arange(50, device=query.device).unsqueeze(1)
        torch.where(rows == self.cursor, 0.5 * self.docs + 0.5 * answer, self.docs, out=self.staging)
        self.docs.copy_(self.staging)
        self.cursor.copy_((self.cursor + 1) % 50)
        return answer


def build_feedback_index(device):
    return FeedbackIndex(device), (torch.randn(8, device=device),)


def build_lexical_scorer(device):
    idf = torch.from_numpy(np.log1p(np.linspace(1.0, 20.0, 128))).float().to(device)
    edges = torch.linspace(0.0, 1.0, 9, device=device)[1:-1]
    fields = (("title", 2.0), ("body", 1.0))

    def step(title, body, lengths):
        counts = {"title": title, "body": body}
        norm = 1.0 + torch.bucketize(lengths, edges).float().unsqueeze(1) / 8.0
        total = torch.zeros_like(body)
        for name, weight in fields:
            total += weight * idf * counts[name] / (counts[name] + 1.2 * norm)
        return total.sum(1)

    return step, (torch.rand(10, 128, device=device), torch.rand(10, 128, device=device), torch.rand(10, device=device))
