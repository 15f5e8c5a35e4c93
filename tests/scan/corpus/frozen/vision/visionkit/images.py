"""What happens to images before the network."""

import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Normalize(nn.Module):
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.2, 0.3)

    def channel(self, values, like):
        return torch.as_tensor(values).to(like).view(-1, 1, 1)  # guilty: image_mean GS304

    def forward(self, x):
        return (x - self.channel(self.mean, x)) / self.channel(self.std, x)


# quiet: image_mean_buffer
class NormalizeBuffer(nn.Module):
    def __init__(self, mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.3)):
        super().__init__()
        for name, values in dict(mean=mean, std=std).items():
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std


class PositionGrid(nn.Module):
    """Learned positions, stretched to the grid of the batch."""

    def __init__(self, dim=4):
        super().__init__()
        self.grid = nn.Parameter(torch.randn(1, dim, 3, 3))

    def forward(self, x, image_sizes):
        height, width = image_sizes[0]
        grid = F.interpolate(self.grid, size=(int(height), int(width)), mode="nearest")  # guilty: stretched_grid GS101
        return x + grid.mean()


class PatchLengths(nn.Module):
    def forward(self, patches, grid_thw):
        parts, begin = [], 0
        for t, h, w in grid_thw:
            parts.append(patches[begin : begin + t * h * w].mean(0))  # guilty: patch_lengths GS203|GS101
            begin = begin + t * h * w
        return torch.stack(parts)


class ShiftedWindows(nn.Module):
    def __init__(self, window=2, dim=4):
        super().__init__()
        self.window = window
        self.proj = nn.Linear(dim, dim)

    def regions(self, h, w):
        regions = torch.zeros(h, w, 1)
        regions[-self.window :] = 1.0
        regions[:, -self.window :] += 2.0
        return regions

    def forward(self, x):
        mask = self.regions(*x.shape[:2]).to(x.device)  # guilty: window_regions GS304
        return self.proj(x) * mask


# quiet: window_regions_static
class StaticWindows(ShiftedWindows):
    def __init__(self, h, w):
        super().__init__()
        self.register_buffer("mask", self.regions(h, w), persistent=False)

    def forward(self, x):
        return self.proj(x) * self.mask


class ChannelOrder(nn.Module):
    def __init__(self, order="bgr"):
        super().__init__()
        self.order = ["rgb".index(letter) for letter in order]

    def forward(self, x):
        return x[:, self.order] * 2  # guilty: channel_order GS302


# quiet: channel_flip
class ChannelFlip(nn.Module):
    def forward(self, x):
        return torch.stack(x.unbind(1)[::-1], 1) * 2


class DropPath(nn.Module):
    def __init__(self, rate=0.5):
        super().__init__()
        self.rate = rate

    def forward(self, x):
        if not self.training or random.random() < self.rate:  # guilty: drop_path GS504
            return x
        return x * 0.5


# quiet: drop_path_tensor
class DropPathTensor(DropPath):
    def forward(self, x):
        if not self.training:
            return x
        keep = torch.rand(x.shape[0], 1, 1, 1, device=x.device) >= self.rate
        return x * keep / (1 - self.rate)


def mixup(x, alpha=0.4):
    share = float(np.random.beta(alpha, alpha))  # guilty: mixup GS504
    return share * x + (1 - share) * x.flip(0)


class Augmented(nn.Module):
    def __init__(self, *transforms):
        super().__init__()
        self.transforms = transforms

    def forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x


class RandomPixels(nn.Module):
    def __init__(self, count=3):
        super().__init__()
        self.count = count

    def forward(self, x):
        ys, xs = (torch.randint(0, side, (self.count,)) for side in x.shape[-2:])  # guilty: random_pixels GS504
        return x[..., ys, xs]  # guilty: random_pixels GS302


class Rescale(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.3))

    @property
    def factor(self):
        return self.log_scale.exp().item()  # guilty: learned_scale GS101

    def forward(self, x):
        return x * self.factor + F.interpolate(x, scale_factor=2.0).mean()
