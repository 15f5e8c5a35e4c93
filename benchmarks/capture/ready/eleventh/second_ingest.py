"""A retrieval index has room for one more ingestion; the second one moves it."""
import torch

import graphsafe


class Index:
    def __init__(self, device):
        self.rows = torch.zeros(64, 16, device=device)
        self.rows[:32] = torch.randn(32, 16).to(device)
        self.used = torch.full((), 32, device=device)
        self.host_used = 32

    def ingest(self):
        new = torch.randn(24, 16).to(self.rows.device)
        if self.host_used + 24 > len(self.rows):
            self.rows = torch.cat([self.rows, torch.zeros_like(self.rows)])[-64:]
            self.host_used = 8
        self.rows[self.host_used : self.host_used + 24] = new
        self.host_used += 24
        self.used.fill_(self.host_used)

    def search(self, query):
        scores = query @ self.rows.T
        live = torch.arange(64, device=query.device) < self.used
        return scores.masked_fill(~live, -1e4).topk(4).values


def build(device):
    index = Index(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(index.search, (torch.randn(4, 16, device=device),), refresh=refresh, events={"ingest": index.ingest})
