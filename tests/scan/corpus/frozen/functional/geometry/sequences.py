import torch
from torch.nn import functional as F


def pad_to_longest(x, lengths):
    padded = torch.zeros(x.shape[0], lengths.max(), device=x.device)  # guilty: padded_longest GS203|GS101
    return padded + x[:, :1]


def columns(x, chosen=(0, 2)):
    x = x.clone()
    x[:, list(chosen)] += 1.0  # guilty: column_list GS302
    return x


# quiet: column_slices
def shifted_columns(x, chosen=(0, 2)):
    x = x.clone()
    for column in chosen:
        x[:, column].add_(1.0)
    return x


def smooth(x):
    kernel = torch.tensor([0.25, 0.5, 0.25]).to(x)  # guilty: smoothing_kernel GS304|GS301
    return F.conv1d(x[None, None], kernel[None, None])


def spread_histogram(x, bins=4):
    return torch.histc(x, bins) / x.numel() + x.sum()  # guilty: histogram GS106|GS101|GS201


def by_length(x, lengths):
    """Longest first."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True)  # guilty: sorted_lengths GS102
    return torch.stack([x[row] for row in order])


# quiet: sorted_lengths_device
def by_length_device(x, lengths):
    return x.index_select(0, lengths.argsort(descending=True, stable=True))


def one_hot_counts(labels, scores):
    return F.one_hot(labels).sum(0).float().sum() * scores  # guilty: class_count GS106|GS101|GS201
