import random

import numpy as np
import torch
from torch import nn

from .aggregate import resolve


def normalized(edges, n):
    """The adjacency with degrees of one."""
    one = torch.arange(n, device=edges.device)
    adjacency = ((edges[1][:, None, None] == one[:, None]) & (edges[0][:, None, None] == one)).float().sum(0)
    return adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)


class Convolution(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def adjacency(self, x, edges):
        return normalized(edges, x.shape[0])

    def forward(self, x, edges):
        return self.adjacency(x, edges) @ self.lin(x)


class CachedConvolution(Convolution):
    """For one graph: the normalisation is done once."""

    def __init__(self, dim, cached=True):
        super().__init__(dim)
        self.cached, self._cached = cached, None

    def adjacency(self, x, edges):
        found = self._cached
        if found is None:
            found = normalized(edges, x.shape[0])
            if self.cached:
                self._cached = found  # guilty: cached_adjacency GS701
        return found


class SelfLoopFree(Convolution):
    def adjacency(self, x, edges):
        keep = edges[0] != edges[1]
        return normalized(edges[:, keep], x.shape[0])  # guilty: self_loops GS202


# quiet: self_loops_masked
class SelfLoopMasked(Convolution):
    def adjacency(self, x, edges):
        eye = torch.eye(x.shape[0], device=x.device)
        return normalized(edges, x.shape[0]) * (1 - eye)


class EdgeDropout(Convolution):
    def adjacency(self, x, edges):
        kept = torch.randperm(edges.shape[1])[: edges.shape[1] // 2]  # guilty: dropped_edges GS504
        return normalized(edges[:, kept], x.shape[0])  # guilty: dropped_edges GS302


class SparseConvolution(Convolution):
    def adjacency(self, x, edges):
        return super().adjacency(x, edges).to_sparse()  # guilty: sparse_edges GS201


class MessagePassing(nn.Module):
    def __init__(self, aggr, **options):
        super().__init__()
        self.aggr, self.options = resolve(aggr), options

    def forward(self, x, index):
        return self.aggr(self.message(x), index, **self.options)

    def message(self, x):
        return x * 2


# quiet: given_nodes
class SizedPassing(MessagePassing):
    def __init__(self, num_nodes):
        super().__init__("sum", num_nodes=num_nodes)


class CheckedMixin:
    def check(self, value):
        assert torch.isfinite(value).all(), "not finite"  # guilty: checked_messages GS102
        return value


class CheckedPassing(CheckedMixin, MessagePassing):
    def message(self, x):
        return self.check(super().message(x))


class GraphSizes(nn.Module):
    """The mean of each graph of a batch."""

    def forward(self, x, batch):
        sums = x.new_zeros(batch[-1] + 1, x.shape[1])  # guilty: graph_count GS203|GS101
        return sums.index_add_(0, batch, x)


class PerGraph(nn.Module):
    def forward(self, x, batch):
        means = [x.mul((batch == graph)[:, None]).sum(0) for graph in batch.unique()]  # guilty: distinct_graphs GS201
        return torch.stack(means)


class ScoredPool(nn.Module):
    def __init__(self, dim, min_score=0.0):
        super().__init__()
        self.score = nn.Linear(dim, 1)
        self.min_score = min_score

    def select(self, score):
        return (score > self.min_score).nonzero().view(-1)  # guilty: scored_pool GS201

    def forward(self, x):
        score = self.score(x).tanh().view(-1)
        keep = self.select(score)
        return (x[keep] * score[keep, None]).sum(0)


# quiet: ratio_pool
class RatioPool(ScoredPool):
    def select(self, score):
        return score.topk(int(0.5 * len(score))).indices


class VirtualNode(nn.Module):
    def __init__(self, dim, device):
        super().__init__()
        self.virtual = torch.zeros(dim, device=device)

    def forward(self, x):
        out = x + self.virtual
        self.virtual = 0.5 * self.virtual + x.mean(0)  # guilty: virtual_node GS703
        return out


class FeatureNoise(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.rng = np.random.RandomState(0)
        self.scale = scale

    def forward(self, x):
        return x * (1 + self.scale * self.rng.uniform())  # guilty: feature_noise GS504


class RandomHops(nn.Module):
    """A different number of hops every step."""

    def __init__(self, most=4):
        super().__init__()
        self.random = random.Random(5)
        self.most = most

    def hops(self):
        return self.random.randint(1, self.most)  # guilty: random_hops GS504

    def forward(self, x, edges):
        for _ in range(self.hops()):
            x = x + normalized(edges, x.shape[0]) @ x
        return x
