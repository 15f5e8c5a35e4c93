import torch
from recsys import embeddings, features, ranking
from torch import nn

DIM = 4


def ids(device):
    return torch.tensor([3, 1, 3, 5, 0, 2], device=device)


def dense(device):
    return torch.rand(5, DIM, device=device)


def looked_up(device, kind):
    return kind(8, DIM).to(device), (ids(device),)


def keep_offsets(args, kwargs, k):
    args[0].copy_(args[0].roll(1))


CHANGE = {"build_bag_spans": keep_offsets}


def build_distinct_ids(device):
    return looked_up(device, embeddings.Deduplicated)


def build_hashed_ids(device):
    return looked_up(device, embeddings.Hashed)


def build_bag_spans(device):
    return embeddings.Bags(8, DIM).to(device), (ids(device), torch.tensor([0, 2, 3, 6], device=device))


def build_host_table(device):
    return looked_up(device, embeddings.HostTable)


def build_cold_start(device):
    return looked_up(device, embeddings.ColdStart)


def build_session_state(device):
    return embeddings.Sessions(DIM, device).to(device), (dense(device),)


def build_crossed_pairs(device):
    return features.Crossed(), (dense(device),)


def build_bucket_edges(device):
    return features.Bucketed([0.2, 0.8, 0.5]).to(device), (dense(device),)


def build_bucket_edges_buffer(device):
    return features.BucketedBuffer([0.2, 0.8, 0.5]).to(device), (dense(device),)


def build_first_norms(device):
    return features.Whitening(), (dense(device),)


def build_freshness(device):
    return features.Freshness(), (dense(device),)


def build_stable_dropout(device):
    return features.StableDropout(), (dense(device),)


def build_drawn_negatives(device):
    return ranking.negatives, (dense(device),)


def build_gain_values(device):
    return ranking.Gain(3).update, (torch.rand(6, device=device), torch.rand(6, device=device))


def build_diversified(device):
    return ranking.Diversified().rank, (torch.rand(4, device=device), torch.rand(4, 4, device=device))


def build_diversified_gather(device):
    return ranking.DiversifiedGather().rank, (torch.rand(4, device=device), torch.rand(4, 4, device=device))


def build_bandit_factor(device):
    return ranking.LinearBandit(DIM, device).select, (dense(device),)


def build_score_line(device):
    layer = nn.Linear(DIM, 2).to(device)
    layer.register_forward_hook(ranking.Describe())
    return layer, (dense(device),)
