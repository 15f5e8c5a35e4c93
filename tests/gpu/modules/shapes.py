"""Steps whose shapes depend on data."""

import torch
import torch.nn.functional as F
from torch import nn


class UnpaddedMlp(nn.Module):
    """Spares the padding: only real tokens go through the layer."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x, keep):
        out = torch.zeros_like(x)
        tokens = x[keep]  # guilty: unpadded_mlp GS202
        out.masked_scatter_(keep.unsqueeze(-1), self.layer(tokens))
        return out


def build_unpadded_mlp(device):
    keep = torch.arange(6, device=device) < torch.tensor([[4], [6]], device=device)
    return UnpaddedMlp(8).to(device), (torch.randn(2, 6, 8, device=device), keep)


class GatheredExperts(nn.Module):
    """Each expert works on the tokens that were routed to it."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    @torch.no_grad()
    def forward(self, x):
        choice = self.router(x).argmax(-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = (choice == index).nonzero().squeeze(-1)  # guilty: gathered_experts GS201
            out.index_copy_(0, rows, expert(x.index_select(0, rows)))
        return out


def build_gathered_experts(device):
    return GatheredExperts(16, 4).to(device), (torch.randn(8, 16, device=device),)


class UniqueEmbedding(nn.Module):
    """A recommender that looks every id up once."""

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    @torch.no_grad()
    def forward(self, ids):
        distinct, back = torch.unique(ids, return_inverse=True)  # guilty: unique_embedding GS201
        return self.table(distinct)[back].sum(1)


def build_unique_embedding(device):
    return UniqueEmbedding(50, 8).to(device), (torch.randint(0, 50, (4, 10), device=device),)


class ExpertLoad(nn.Module):
    """Balances a router by how many tokens each expert was given."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = experts

    @torch.no_grad()
    def forward(self, x):
        probabilities = self.router(x).softmax(-1)
        load = torch.bincount(probabilities.argmax(-1), minlength=self.experts)  # guilty: expert_load GS201
        return probabilities * (load.float() / x.shape[0]), load


def build_expert_load(device):
    return ExpertLoad(16, 4).to(device), (torch.randn(32, 16, device=device),)


class PhonemeExpand(nn.Module):
    """A speech model's length regulator: each phoneme is repeated for as long as it sounds."""

    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, phonemes, durations):
        frames = torch.repeat_interleave(self.encoder(phonemes), durations, dim=0)  # guilty: phoneme_expand GS201
        return frames[:8].cumsum(0)


def build_phoneme_expand(device):
    durations = torch.tensor([2, 3, 1, 3, 2], device=device)
    return PhonemeExpand(8).to(device), (torch.randn(5, 8, device=device), durations)


CHANGE_DURATIONS = ([3, 2, 2, 2, 2], [4, 1, 1, 2, 3], [2, 2, 2, 2, 3], [3, 3, 3, 1, 1])


def change_durations(args, kwargs, k):
    args[0].normal_()
    args[1].copy_(torch.tensor(CHANGE_DURATIONS[k % 4]))


class LabelSmoothing(nn.Module):
    """Cross entropy against smoothed labels, made as one-hot rows."""

    def __init__(self, width, classes):
        super().__init__()
        self.head = nn.Linear(width, classes)

    @torch.no_grad()
    def forward(self, x, labels):
        target = F.one_hot(labels) * 0.9 + 0.025  # guilty: label_smoothing GS201
        return -(target * self.head(x).log_softmax(-1)).sum(-1).mean()


def build_label_smoothing(device):
    return LabelSmoothing(8, 4).to(device), (
        torch.randn(5, 8, device=device),
        torch.tensor([3, 1, 3, 2, 0], device=device),
    )


def change_labels(args, kwargs, k):
    args[0].normal_()
    args[1][1:].random_(0, 4)


class CroppedCache(nn.Module):
    """Attends to as much of the cache as the device says is filled."""

    def __init__(self, width, length):
        super().__init__()
        self.register_buffer("keys", torch.randn(length, width))

    def forward(self, query, filled):
        keys = self.keys[:filled]  # guilty: cropped_cache GS203
        return torch.softmax(query @ keys.T, dim=-1) @ keys


def build_cropped_cache(device):
    return CroppedCache(8, 32).to(device), (torch.randn(2, 8, device=device), torch.tensor(12, device=device))


class DeviceRounds(nn.Module):
    """Message passing for as many rounds as the batch asks for."""

    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, nodes, adjacency, rounds):
        for _ in range(rounds):  # guilty: device_rounds GS203
            nodes = torch.tanh(adjacency @ self.message(nodes))
        return nodes


def build_device_rounds(device):
    adjacency = torch.rand(6, 6, device=device).softmax(-1)
    return DeviceRounds(8).to(device), (torch.randn(6, 8, device=device), adjacency, torch.tensor(3, device=device))


class MaskedWrite(nn.Module):
    """Image tokens take the places of placeholders in a multimodal prompt."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    @torch.no_grad()
    def forward(self, ids, image):
        embedded = self.table(ids)
        embedded[ids == 1] = image  # guilty: masked_write GS202
        return embedded


def build_masked_write(device):
    ids = torch.tensor([4, 1, 1, 1, 7, 3], device=device)
    return MaskedWrite(10, 8).to(device), (ids, torch.randn(3, 8, device=device))


def change_placeholders(args, kwargs, k):
    args[0].copy_(torch.tensor([4, 1, 1, 1, 7, 3]).roll(k))
    args[1].normal_()


class SparseAdjacency(nn.Module):
    """A graph convolution that makes its adjacency sparse in the step."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x, adjacency):
        edges = adjacency.to_sparse()  # guilty: sparse_adjacency GS201
        return torch.sparse.mm(edges, self.layer(x))


def build_sparse_adjacency(device):
    adjacency = (torch.rand(6, 6, device=device) > 0.5).float()
    return SparseAdjacency(8).to(device), (torch.randn(6, 8, device=device), adjacency)


CHANGE = {
    "build_phoneme_expand": change_durations,
    "build_label_smoothing": change_labels,
    "build_masked_write": change_placeholders,
}
