"""Plain functions: losses, masks, and alignment of points."""

from .align import kabsch, percentile, robust_scale
from .losses import hard_negatives, masked_mean, masked_mean_where, triplets, weighted
from .sequences import by_length, columns, pad_to_longest, smooth, spread_histogram

__all__ = [
    "by_length",
    "columns",
    "hard_negatives",
    "kabsch",
    "masked_mean",
    "masked_mean_where",
    "pad_to_longest",
    "percentile",
    "robust_scale",
    "smooth",
    "spread_histogram",
    "triplets",
    "weighted",
]
