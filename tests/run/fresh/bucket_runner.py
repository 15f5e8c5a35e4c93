"""Padded buckets over (batch, length) for an embedding service."""
from __future__ import annotations

import threading
from typing import NamedTuple

import torch
from torch import nn


class Key(NamedTuple):
    batch: int
    length: int


class Pooler(nn.Module):
    def __init__(self, vocab=1000, width=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.enc = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, ids, mask):
        h = self.enc(self.emb(ids)) * mask.unsqueeze(-1)
        return nn.functional.normalize(h.sum(1) / mask.sum(1, keepdim=True).clamp_min(1), dim=-1)


class Bucket:
    def __init__(self, model, key: Key, device, stream, pool):
        self.key = key
        self.ids = torch.zeros(key.batch, key.length, dtype=torch.long, device=device)
        self.mask = torch.zeros(key.batch, key.length, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(self.ids, self.mask)
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.cuda.graph(self.graph, pool=pool, stream=stream):
            self.out = model(self.ids, self.mask)

    def __call__(self, ids, mask):
        b, n = ids.shape
        self.ids.zero_()
        self.mask.zero_()
        self.ids[:b, :n].copy_(ids, non_blocking=True)
        self.mask[:b, :n].copy_(mask, non_blocking=True)
        self.graph.replay()
        return self.out[:b].clone()


class EmbeddingService:
    def __init__(self, model, batches, lengths, device):
        self.device = device
        self.model = model
        self.lock = threading.Lock()
        self.batches, self.lengths = sorted(batches), sorted(lengths)
        self.buckets = {}
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream(device)
        with torch.no_grad():
            for b in reversed(self.batches):
                for n in reversed(self.lengths):
                    key = Key(b, n)
                    self.buckets[key] = Bucket(model, key, device, stream, pool)

    def pick(self, b, n):
        batch = next((x for x in self.batches if x >= b), None)
        length = next((x for x in self.lengths if x >= n), None)
        return None if batch is None or length is None else Key(batch, length)

    @torch.no_grad()
    def embed(self, documents):
        longest = max(map(len, documents))
        ids = torch.zeros(len(documents), longest, dtype=torch.long)
        mask = torch.zeros(len(documents), longest)
        for row, doc in enumerate(documents):
            ids[row, : len(doc)] = torch.tensor(doc)
            mask[row, : len(doc)] = 1
        assert ids.max() < self.model.emb.num_embeddings
        ids, mask = ids.pin_memory(), mask.pin_memory()
        key = self.pick(*ids.shape)
        with self.lock:
            if key is None:
                return self.model(ids.to(self.device, non_blocking=True), mask.to(self.device, non_blocking=True))
            return self.buckets[key](ids, mask)
