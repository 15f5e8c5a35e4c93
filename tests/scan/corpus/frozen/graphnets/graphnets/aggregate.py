"""Aggregations by name."""

import torch

AGGREGATIONS = {}


def aggregation(*names):
    def wrap(fn):
        AGGREGATIONS.update(dict.fromkeys(names, fn))
        return fn

    return wrap


def resolve(query):
    return AGGREGATIONS[query] if isinstance(query, str) else query


def num_nodes_of(index, num_nodes=None):
    return int(index.max()) + 1 if num_nodes is None else num_nodes  # guilty: guessed_nodes GS101


@aggregation("add", "sum")
def add(x, index, num_nodes=None):
    size = num_nodes_of(index, num_nodes)
    assign = index[None, :] == torch.arange(size, device=x.device)[:, None]
    return assign.to(x.dtype) @ x


@aggregation("segments")
def by_segments(x, ptr):
    parts = [x[ptr[n] : ptr[n + 1]] for n in range(len(ptr) - 1)]  # guilty: segment_slices GS203|GS101
    return torch.stack([part.amax(0) for part in parts])


@aggregation("expand")
def expand(x, ptr):
    return x.repeat_interleave(ptr.diff(), dim=0)  # guilty: expanded_nodes GS201


# quiet: expanded_nodes_sized
@aggregation("expand_sized")
def expand_sized(x, ptr, total=10):
    return torch.repeat_interleave(x, ptr.diff(), dim=0, output_size=total)
