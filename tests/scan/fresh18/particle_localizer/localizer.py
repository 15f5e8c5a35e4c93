"""Monte Carlo localisation: move, weigh against beacons, resample."""

import math
from typing import Callable

import torch

RESAMPLERS: dict[str, Callable] = {}


def resampler(name: str):
    def register(fn):
        RESAMPLERS[name] = fn
        return fn

    return register


@resampler("residual")
def residual_parents(weights: torch.Tensor, ids: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    n = weights.shape[0]
    edges = torch.floor(weights.cumsum(0) * n + offset)
    edges[-1:] = n
    offspring = torch.diff(edges, prepend=torch.zeros_like(edges[:1])).long()
    return torch.repeat_interleave(ids, offspring)


@resampler("search")
def search_parents(weights: torch.Tensor, ids: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    n = weights.shape[0]
    ticks = (ids + offset) / n
    return torch.searchsorted(weights.cumsum(0), ticks).clamp_(max=n - 1)


class Localizer:
    def __init__(self, beacons: torch.Tensor, particles: int, device, scheme: str = "residual", spread: float = 0.02):
        self.beacons = beacons
        self.parents = RESAMPLERS[scheme]
        self.spread = spread
        self.poses = torch.rand(particles, 3, device=device)
        self.ids = torch.arange(particles, device=device)

    def move(self, command: torch.Tensor) -> torch.Tensor:
        x, y, heading = self.poses.unbind(-1)
        heading = torch.remainder(heading + command[1], 2 * math.pi)
        moved = torch.stack([x + command[0] * heading.cos(), y + command[0] * heading.sin(), heading], -1)
        return moved + self.spread * torch.randn_like(moved)

    def weigh(self, poses: torch.Tensor, ranges: torch.Tensor) -> torch.Tensor:
        expected = torch.cdist(poses[:, :2], self.beacons)
        log_weight = -(expected - ranges).square().sum(-1) / 0.2
        return torch.softmax(log_weight, 0)

    def __call__(self, command: torch.Tensor, ranges: torch.Tensor) -> torch.Tensor:
        poses = self.move(command)
        weights = self.weigh(poses, ranges)
        offset = torch.rand(1, device=weights.device)
        chosen = self.parents(weights, self.ids, offset)
        self.poses.copy_(poses.index_select(0, chosen))
        return self.poses.mean(0)


def build(device):
    beacons = torch.rand(5, 2, device=device)
    localizer = Localizer(beacons, 128, device)
    command = torch.tensor([0.05, 0.1]).to(device)
    ranges = torch.rand(5, device=device)
    return localizer, (command, ranges)
