import torch
from meters import base, classification, regression


def scored(device, kind, **options):
    target = torch.tensor([0, 3, 1, 4, 4, 2], device=device)
    return kind(device, **options), (torch.randn(6, 5, device=device), target)


def valued(device, kind):
    return kind(device), (torch.randn(6, device=device),)


def build_accuracy(device):
    return scored(device, classification.Accuracy)


def build_accuracy_tensor(device):
    return scored(device, classification.AccuracyTensor)


def build_ignored_index(device):
    return scored(device, classification.IgnoringAccuracy)


def build_score_list(device):
    return scored(device, classification.RankedScores)


def build_score_buffer(device):
    return scored(device, classification.BufferedScores)


def build_thresholds(device):
    metric, args = scored(device, classification.DistinctThresholds)
    return base.Collection(thresholds=metric), args


def build_target_range(device):
    return scored(device, classification.CheckedTarget)


def build_target_dtype(device):
    return scored(device, classification.TypedTarget)


def build_perplexity(device):
    return scored(device, classification.Perplexity)


def build_running_total(device):
    return valued(device, regression.RunningTotal)


def build_moments(device):
    metric, args = valued(device, regression.Moments)
    return base.Collection(moments=metric), args


def build_moments_inplace(device):
    metric, args = valued(device, regression.MomentsInPlace)
    return base.Collection(moments=metric), args


def build_host_count(device):
    return valued(device, regression.MeanOverHostCount)


def build_best_so_far(device):
    return valued(device, regression.Best)


def build_best_so_far_minimum(device):
    metric, args = valued(device, regression.BestMinimum)
    return lambda values: (metric(values), values.amax()), args


def build_frechet(device):
    return regression.FrechetDistance(device), (torch.randn(6, 3, device=device),)


def build_throughput(device):
    return valued(device, regression.Throughput)


def build_truthy_metric(device):
    return valued(device, regression.Truthy)


def build_host_percentile(device):
    return valued(device, regression.Percentile)
