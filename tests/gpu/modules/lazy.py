"""What the first step makes from its inputs, later steps reuse."""

import functools

import torch
from torch import nn


class PlannedAttention(nn.Module):
    """The offsets of the sequences are planned when there is no plan yet."""

    def __init__(self):
        super().__init__()
        self.plan = None

    def forward(self, tokens, lengths):
        if self.plan is None:
            self.plan = torch.cumsum(lengths, 0)  # guilty: planned_attention GS701
        return tokens * self.plan.unsqueeze(1) + lengths.unsqueeze(1)


def build_planned_attention(device):
    return PlannedAttention(), (torch.randn(4, 8, device=device), torch.tensor([7, 3, 9, 7], device=device))


class ActivationScale(nn.Module):
    """Dynamic quantisation whose scale is taken from the first batch for ever."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width, bias=False)

    @torch.no_grad()
    def forward(self, x):
        if not hasattr(self, "scale"):
            self.scale = x.abs().amax() / 127  # guilty: activation_scale GS701
        return self.layer(torch.clamp((x / self.scale).round(), -127, 127) * self.scale)


def build_activation_scale(device):
    return ActivationScale(16).to(device), (torch.randn(4, 16, device=device),)


class OffsetsByShape(nn.Module):
    """Offsets of a ragged batch, kept under a key that knows only its shape."""

    def __init__(self):
        super().__init__()
        self.offsets = {}

    def forward(self, values, lengths):
        key = (values.shape[0], values.device)
        if key not in self.offsets:
            self.offsets[key] = torch.cumsum(lengths, 0) - lengths  # guilty: offsets_by_shape GS701|GS705
        return values + self.offsets[key].unsqueeze(1)


def build_offsets_by_shape(device):
    return OffsetsByShape(), (torch.randn(4, 8, device=device), torch.tensor([2, 5, 2, 3], device=device))


@functools.lru_cache(maxsize=8)
def rotary(positions):
    """A tensor is its own key: the table of the first positions is found again whatever the tensor holds by then."""
    angles = positions[:, None] * torch.full((1, 4), 0.3, device=positions.device)
    return angles.cos(), angles.sin()


class CachedRotary(nn.Module):
    def forward(self, x, positions):
        cos, sin = rotary(positions)  # guilty: cached_rotary GS705|GS701
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


def build_cached_rotary(device):
    return CachedRotary(), (torch.randn(3, 8, device=device), torch.tensor([4.0, 9.0, 2.0], device=device))


class RouterBias(nn.Module):
    """A load-balancing bias that is worked out once, behind a flag."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.ready = False
        self.bias = None

    @torch.no_grad()
    def forward(self, x):
        scores = self.router(x)
        if not self.ready:
            self.bias = -scores.mean(0)  # guilty: router_bias GS701
            self.ready = True
        return (scores + self.bias).softmax(-1)


def build_router_bias(device):
    return RouterBias(16, 4).to(device), (torch.randn(8, 16, device=device) + 0.5,)
