"""Attention and segment operators with a plan made ahead."""
from functools import cached_property

import torch
from torch import nn

_SPLITS = {}
_ORDER = None


class SegmentSum:
    def __init__(self):
        self.offsets = None

    def __call__(self, values, lengths):
        if self.offsets is None:
            self.offsets = lengths.cumsum(0)
        ids = torch.bucketize(torch.arange(values.shape[0], device=values.device), self.offsets, right=True)
        return values.new_zeros(lengths.shape[0] + 1, values.shape[1]).index_add_(0, ids, values)


class SegmentSumFresh:
    def __call__(self, values, lengths):
        offsets = lengths.cumsum(0)
        ids = torch.bucketize(torch.arange(values.shape[0], device=values.device), offsets, right=True)
        return values.new_zeros(lengths.shape[0] + 1, values.shape[1]).index_add_(0, ids, values)


class SortedExperts(nn.Module):
    def __init__(self, dim=8, n=4):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n, dim, dim))

    @torch.no_grad()
    def forward(self, x, choice):
        if not hasattr(self, "_order"):
            self._order = choice.argsort()
            self._back, self._who = self._order.argsort(), choice[self._order]
        y = x[self._order]
        return torch.einsum("bd,bde->be", y, self.w[self._who])[self._back]


class Normaliser:
    def __init__(self):
        self._scale = {}

    def __call__(self, x):
        scale = self._scale.get(x.shape)
        if scale is None:
            scale = self._scale.setdefault(x.shape, x.abs().amax(-1, keepdim=True))
        return x / scale


class Gated:
    def __init__(self, probe):
        self.probe = probe

    @cached_property
    def gate(self):
        return torch.sigmoid(self.probe.mean(0))

    def __call__(self, x):
        return x * self.gate


def split_decode(q, kv, lengths):
    key = (q.device, q.shape[0])
    if key not in _SPLITS:
        _SPLITS[key] = (lengths + 3) // 4
    live = torch.arange(kv.shape[1], device=q.device)[None] < (_SPLITS[key] * 4)[:, None]
    score = torch.einsum("bd,btd->bt", q, kv).masked_fill(~live, -1e9)
    return torch.einsum("bt,btd->bd", score.softmax(-1), kv)


def ordered_merge(x, rank):
    global _ORDER
    if _ORDER is None:
        _ORDER = rank.argsort()
    return x[_ORDER].cumsum(0)


class StaticPlan(nn.Module):
    """A plan that follows from the shape alone is made at the first call."""

    def __init__(self):
        super().__init__()
        self.plan = None

    def forward(self, x):
        if self.plan is None:
            n = x.shape[-1]
            self.plan = torch.arange(n - 1, -1, -1, device=x.device)
        return x.index_select(-1, self.plan).cumsum(-1)


def build_segment_sum(device):
    return SegmentSum(), (torch.randn(24, 4, device=device), torch.tensor([4, 9, 2, 8], device=device))


def build_segment_sum_fresh(device):
    return SegmentSumFresh(), (torch.randn(24, 4, device=device), torch.tensor([4, 9, 2, 8], device=device))


def build_sorted_experts(device):
    return SortedExperts().to(device), (torch.randn(6, 8, device=device), torch.tensor([3, 0, 2, 1, 0, 3], device=device))


def build_shape_scale(device):
    return Normaliser(), (torch.randn(4, 8, device=device),)


def build_cached_gate(device):
    probe = torch.randn(4, 8, device=device)
    gated = Gated(probe)
    return lambda x, p: gated(x) + 0 * p, (torch.randn(4, 8, device=device), probe)


def build_split_decode(device):
    lengths = torch.tensor([3, 9, 14, 6], device=device)
    return split_decode, (torch.randn(4, 8, device=device), torch.randn(4, 16, 8, device=device), lengths)


def build_ordered_merge(device):
    return ordered_merge, (torch.randn(8, 4, device=device), torch.randn(8, device=device))


def build_static_plan(device):
    return StaticPlan(), (torch.randn(4, 16, device=device),)
