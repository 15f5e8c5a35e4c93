from itertools import pairwise

import torch
from torch import nn


class Deduplicated(nn.Module):
    """Looks every id up once."""

    def __init__(self, rows, dim):
        super().__init__()
        self.table = nn.Embedding(rows, dim)

    def forward(self, ids):
        distinct, back = ids.unique(return_inverse=True)  # guilty: distinct_ids GS201
        return self.table(distinct)[back]


# quiet: hashed_ids
class Hashed(Deduplicated):
    def forward(self, ids):
        return self.table((ids * 31 + 7) % self.table.num_embeddings)


class Bags(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.table = nn.Embedding(rows, dim)

    @staticmethod
    def spans(offsets):
        ends = offsets.tolist()  # guilty: bag_spans GS101
        yield from pairwise(ends)

    def forward(self, ids, offsets):
        rows = self.table(ids)
        return torch.stack([rows[a:b].sum(0) for a, b in self.spans(offsets)])


class HostTable(nn.Module):
    """The table is too large for the device."""

    def __init__(self, rows, dim):
        super().__init__()
        self.rows = {"items": torch.randn(rows, dim)}

    def fetch(self, name, ids):
        return self.rows[name][ids.cpu()]  # guilty: host_table GS103

    def forward(self, ids):
        return self.fetch("items", ids).to(ids.device) * 2  # guilty: host_table GS304


class ColdStart(Deduplicated):
    unknown = 0

    def forward(self, ids):
        rows = self.table(ids)
        return rows if not (ids == self.unknown).any() else rows - rows.mean(0)  # guilty: cold_start GS102


class Sessions(nn.Module):
    def __init__(self, dim, device):
        super().__init__()
        self.blend = nn.Linear(dim, dim)
        self.last = [torch.zeros(dim, device=device)]

    def forward(self, x):
        before = self.last.pop()  # guilty: session_state GS703|GS702
        self.last.append(torch.lerp(before, x.mean(0), 0.3))  # guilty: session_state GS703
        return self.blend(x) + before
