"""Steps that ask whether they are being captured, and then compute something else."""

import torch
import torch.nn.functional as F
from torch import nn


class SkippedStatistics(nn.Module):
    """Leaves the running statistics as they are while it is captured."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        if not torch.cuda.is_current_stream_capturing():  # guilty: skipped_statistics GS608
            self.mean.lerp_(x.mean(0), 0.1)
        return x - self.mean


def build_skipped_statistics(device):
    return SkippedStatistics(8).to(device), (torch.randn(4, 8, device=device) + 1,)


def may_skip_mask():
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()  # guilty: dropped_mask GS608


class DroppedMask(nn.Module):
    """Causal attention that forgets its mask in a capture."""

    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    @torch.no_grad()
    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        if may_skip_mask():  # guilty: dropped_mask GS608
            return F.scaled_dot_product_attention(q, k, v)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def build_dropped_mask(device):
    return DroppedMask(16).to(device), (torch.randn(2, 6, 16, device=device),)


class ReferenceScale(nn.Module):
    """Takes a fixed scale in a capture, since the measured one is read by the host."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x):
        capturing = torch.cuda.is_current_stream_capturing()  # guilty: reference_scale GS608
        scale = 4.0 if capturing else x.abs().max().item()  # guilty: reference_scale GS608
        return self.layer((x / scale * 127).round() * scale / 127)


def build_reference_scale(device):
    return ReferenceScale(16).to(device), (torch.randn(8, 16, device=device),)
