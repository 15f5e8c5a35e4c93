"""Embedding tables that are refreshed while the server runs."""
import torch


class TableRegistry:
    def __init__(self, sizes, width, device):
        self.device = device
        self.tables = {
            name: torch.randn(rows, width, device=device) * 0.05 for name, rows in sizes.items()
        }

    def lookup(self, name, ids):
        return torch.nn.functional.embedding(ids, self.tables[name])

    def reload(self, path):
        fresh = torch.load(path, map_location="cpu", weights_only=True)
        for name, rows in fresh.items():
            self.tables[name] = rows.to(self.device)
        return sorted(fresh)
