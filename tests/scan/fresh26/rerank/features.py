"""Versioned feature store: item rows are refreshed by a background export."""
import torch


class FeatureStore:
    def __init__(self, items, width, device, seed=0):
        self.items = items
        self.width = width
        self.device = device
        self.version = 0
        self.table = self._load(seed)

    def _load(self, seed):
        gen = torch.Generator().manual_seed(seed)
        return torch.randn(self.items, self.width, generator=gen).to(self.device)

    def publish(self, seed):
        self.table = self._load(seed)
        self.version += 1

    def rows(self, ids):
        return self.table[ids]
