from datetime import datetime

import torch
from torch import nn


class Crossed(nn.Module):
    pairs = ((0, 1), (2, 3), (1, 3))

    def sides(self):
        return map(list, zip(*self.pairs, strict=True))

    def forward(self, x):
        left, right = self.sides()
        return x[:, left] * x[:, right]  # guilty: crossed_pairs GS302


class Bucketed(nn.Module):
    def __init__(self, bounds, dim=3):
        super().__init__()
        self.bounds = sorted(bounds)
        self.table = nn.Embedding(len(bounds) + 1, dim)

    def edges(self, like):
        return torch.as_tensor(self.bounds, dtype=like.dtype, device=like.device)  # guilty: bucket_edges GS301

    def forward(self, x):
        return self.table(torch.bucketize(x, self.edges(x)))


# quiet: bucket_edges_buffer
class BucketedBuffer(Bucketed):
    def __init__(self, bounds, dim=3):
        super().__init__(bounds, dim)
        self.register_buffer("_edges", torch.tensor(self.bounds))

    def edges(self, like):
        return self._edges


class Whitening(nn.Module):
    """Divides by the norms of the first batch."""

    def forward(self, x):
        if "norms" not in self.__dict__:
            self.norms = x.norm(dim=0) + 1e-3  # guilty: first_norms GS701
        return x / self.norms


class Freshness(nn.Module):
    half_life = 0.05

    def __init__(self):
        super().__init__()
        self.since = datetime.now()

    def age(self):
        return (datetime.now() - self.since).total_seconds()  # guilty: freshness GS504|GS702

    def forward(self, scores):
        return scores + 10 * 0.5 ** (self.age() / self.half_life) + self.age()


class StableDropout(nn.Module):
    """The same units fall out at every step, so that runs can be compared."""

    def __init__(self, seed=5, rate=0.5):
        super().__init__()
        self.seed, self.rate = seed, rate

    def forward(self, x):
        torch.manual_seed(self.seed)  # guilty: stable_dropout GS503
        return nn.functional.dropout(x, self.rate)
