import geometry
import torch
from geometry import align, losses, sequences


def points(device):
    return torch.randn(5, 3, device=device)


def grid(device):
    return torch.randn(4, 4, device=device)


def build_reflected(device):
    return geometry.kabsch, (points(device), points(device))


def build_percentile_index(device):
    return geometry.percentile, (grid(device), torch.tensor(0.4, device=device))


def build_percentile_host(device):
    return align.percentile_of, (grid(device),)


def build_robust_delta(device):
    return geometry.robust_scale, (grid(device),)


def build_robust_delta_tensor(device):
    return align.robust_scale_tensor, (grid(device),)


def build_orthogonality(device):
    return align.orthogonal, (torch.rand(3, 3, device=device), torch.rand(3, 3, device=device))


def build_masked_average(device):
    return geometry.masked_mean, (grid(device), torch.tensor([1, 0, 1, 1], device=device))


def build_masked_average_where(device):
    return geometry.masked_mean_where, (grid(device), torch.tensor([1, 0, 1, 1], device=device))


def build_negative_count(device):
    return geometry.hard_negatives, (
        torch.rand(4, device=device),
        torch.tensor([True, False, False, False], device=device),
    )


def build_pair_list(device):
    return geometry.triplets, (grid(device),)


def build_pair_grid(device):
    return losses.pairwise, (grid(device),)


def build_loss_weights(device):
    return geometry.weighted, (grid(device),)


def build_loss_weights_python(device):
    return losses.weighted_python, (grid(device),)


def lengths(device):
    return torch.tensor([2, 4, 1, 1], device=device)


def build_padded_longest(device):
    return geometry.pad_to_longest, (grid(device), lengths(device))


def build_column_list(device):
    return geometry.columns, (grid(device),)


def build_column_slices(device):
    return sequences.shifted_columns, (grid(device),)


def build_smoothing_kernel(device):
    return geometry.smooth, (torch.randn(8, device=device),)


def build_histogram(device):
    return geometry.spread_histogram, (torch.rand(16, device=device),)


def build_sorted_lengths(device):
    return geometry.by_length, (grid(device), lengths(device))


def build_sorted_lengths_device(device):
    return sequences.by_length_device, (grid(device), lengths(device))


def build_class_count(device):
    return sequences.one_hot_counts, (lengths(device), torch.rand(3, device=device))
