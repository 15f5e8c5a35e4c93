"""Image and video steps."""
import functools
import gc
import itertools

import torch
from torch import nn
from torch.nn import functional as F
from graphsafe import Step


def _refresh(args, kwargs, k):
    args[0].normal_()


def build_cumulative_norm(device):
    net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6, momentum=None), nn.ReLU()).to(device)
    net.requires_grad_(False)
    return Step(net, (torch.randn(2, 3, 8, 8, device=device),), refresh=_refresh)


class Antialias:
    def __init__(self, shape, device):
        self.history = torch.zeros(shape, device=device)
        self.jitter = itertools.cycle([(0, 0), (1, -1), (-1, 1), (2, 0), (0, 2), (-2, 1), (1, 2), (-1, -2)])

    def resolve(self, frame):
        shift = next(self.jitter)
        aligned = torch.roll(frame, shift, dims=(-2, -1))
        self.history.lerp_(aligned, 0.1)
        return self.history.clamp(-1, 1)


def build_antialias(device):
    shape = (1, 3, 8, 8)
    return Step(Antialias(shape, device).resolve, (torch.randn(shape, device=device),), refresh=_refresh)


class Tiled(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, device=device).requires_grad_(False)
        self.tile = torch.zeros(1, 3, 16, 16, device=device)
        self.side = torch.cuda.Stream(device)

    def forward(self, image):
        here = torch.cuda.current_stream(image.device)
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            torch.mul(image, 0.5, out=self.tile)
        edges = image.diff(dim=-1).abs().mean()
        out = self.conv(self.tile)
        here.wait_stream(self.side)
        return out + edges


def build_tiled(device):
    return Step(Tiled(device), (torch.randn(1, 3, 16, 16, device=device),), refresh=_refresh)


class TwoPaths(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.coarse = nn.Conv2d(3, 4, 3, padding=1, device=device).requires_grad_(False)
        self.fine = nn.Conv2d(3, 4, 5, padding=2, device=device).requires_grad_(False)
        self.side = torch.cuda.Stream(device)
        self.forked, self.joined = torch.cuda.Event(), torch.cuda.Event()
        self.low = torch.zeros(1, 4, 8, 8, device=device)

    def forward(self, image):
        here = torch.cuda.current_stream(image.device)
        self.forked.record(here)
        with torch.cuda.stream(self.side):
            self.side.wait_event(self.forked)
            small = F.avg_pool2d(image, 2)
            self.low.lerp_(self.coarse(small), 0.5)
            self.joined.record(self.side)
        high = self.fine(image)
        here.wait_event(self.joined)
        return high + F.interpolate(self.low, scale_factor=2.0)


def build_two_paths(device):
    return Step(TwoPaths(device), (torch.randn(1, 3, 16, 16, device=device),), refresh=_refresh)


def build_stereo(device):
    pair = torch.randn(2, 4, 8, 8, 3, device=device)
    left, right = pair[0].permute(0, 3, 1, 2), pair[1].permute(0, 3, 1, 2)
    conv = nn.Conv2d(3, 4, 3, padding=1, device=device).requires_grad_(False)

    def match(left, right):
        left.sub_(left.mean((2, 3), keepdim=True))
        right.sub_(right.mean((2, 3), keepdim=True))
        cost = (conv(left) - conv(right)).abs()
        return cost, cost.transpose(1, 2), left

    return Step(match, (left, right), refresh=lambda args, kwargs, k: pair.normal_())


@functools.lru_cache(maxsize=2)
def _grid(height, width, device):
    y = torch.linspace(-1, 1, height, device=device)
    x = torch.linspace(-1, 1, width, device=device)
    return torch.stack([x.expand(height, width), y[:, None].expand(height, width)])


def build_pyramid(device):
    conv = nn.Conv2d(5, 3, 3, padding=1, device=device).requires_grad_(False)

    def pyramid(image):
        levels = []
        for _ in range(3):
            grid = _grid(image.size(-2), image.size(-1), image.device)
            levels.append(conv(torch.cat([image, grid.expand(image.size(0), -1, -1, -1)], 1)))
            image = F.avg_pool2d(levels[-1], 2)
        return levels

    return Step(pyramid, (torch.randn(2, 3, 16, 16, device=device),), refresh=_refresh, events={"collect": gc.collect})
