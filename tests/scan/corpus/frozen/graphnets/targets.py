import torch
from graphnets import layers

DIM = 6


def nodes(device, n=5):
    return torch.randn(n, DIM, device=device)


def edges(device):
    return torch.tensor([[0, 1, 2, 2, 4, 3], [1, 1, 0, 3, 2, 4]], device=device)


def pointers(device):
    return torch.tensor([0, 1, 3, 4, 6, 10], device=device)


def convolved(device, kind):
    return kind(DIM).to(device), (nodes(device), edges(device))


def batch(device):
    return torch.tensor([0, 0, 1, 2, 2], device=device)


def keep_batch(args, kwargs, k):
    args[0].normal_()


CHANGE = dict.fromkeys(["build_graph_count", "build_segment_slices", "build_expanded_nodes_sized"], keep_batch)


def build_guessed_nodes(device):
    return layers.MessagePassing("add"), (nodes(device), batch(device))


def build_given_nodes(device):
    return layers.SizedPassing(3), (nodes(device), batch(device))


def build_segment_slices(device):
    return layers.MessagePassing("segments"), (nodes(device, 10), pointers(device))


def build_expanded_nodes(device):
    return layers.MessagePassing("expand"), (nodes(device), pointers(device))


def build_expanded_nodes_sized(device):
    return layers.MessagePassing("expand_sized"), (nodes(device), pointers(device))


def build_cached_adjacency(device):
    return convolved(device, layers.CachedConvolution)


def build_self_loops(device):
    return convolved(device, layers.SelfLoopFree)


def build_self_loops_masked(device):
    return convolved(device, layers.SelfLoopMasked)


def build_dropped_edges(device):
    return convolved(device, layers.EdgeDropout)


def build_sparse_edges(device):
    return convolved(device, layers.SparseConvolution)


def build_checked_messages(device):
    return layers.CheckedPassing("sum", num_nodes=3), (nodes(device), batch(device))


def build_graph_count(device):
    return layers.GraphSizes(), (nodes(device), batch(device))


def build_distinct_graphs(device):
    return layers.PerGraph(), (nodes(device), batch(device))


def build_scored_pool(device):
    return layers.ScoredPool(DIM).to(device), (nodes(device),)


def build_ratio_pool(device):
    return layers.RatioPool(DIM).to(device), (nodes(device),)


def build_virtual_node(device):
    return layers.VirtualNode(DIM, device), (nodes(device),)


def build_feature_noise(device):
    return layers.FeatureNoise(), (nodes(device),)


def build_random_hops(device):
    return layers.RandomHops(), (nodes(device), edges(device))
