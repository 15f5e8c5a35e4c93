"""A detection head: decodes anchors, keeps the certain ones and returns their corners."""

import torch
import torch.nn as nn

GRID, ANCHORS, CHANNELS = 8, 3, 32


class Decode(nn.Module):
    def __init__(self):
        super().__init__()
        ys, xs = torch.meshgrid(torch.arange(GRID), torch.arange(GRID), indexing="ij")
        self.register_buffer("cells", torch.stack([xs, ys], -1).float())
        self.register_buffer("sizes", torch.tensor([[1.0, 1.0], [2.0, 1.0], [1.0, 2.0]]))

    def forward(self, raw):
        center = raw[..., :2].sigmoid() + self.cells[None, :, :, None]
        size = raw[..., 2:4].exp() * self.sizes
        return torch.cat([center - size / 2, center + size / 2], -1).flatten(1, 3)


class Suppress(nn.Module):
    """Lowers the score of each box that a better one overlaps."""

    def forward(self, boxes, scores):
        low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        overlap = shared / (area[:, None] + area[None] - shared + 1e-6)
        better = scores[None] > scores[:, None]
        return scores * torch.exp(-2.0 * (overlap * better).amax(1))


class AnchorHead(nn.Module):
    def __init__(self, floor=0.45):
        super().__init__()
        self.floor = floor
        self.out = nn.Conv2d(CHANNELS, ANCHORS * 5, 1)
        self.decode = Decode()
        self.suppress = Suppress()

    @torch.no_grad()
    def forward(self, features):
        raw = self.out(features).view(1, ANCHORS, 5, GRID, GRID).permute(0, 3, 4, 1, 2)
        boxes = self.decode(raw)[0]
        scores = raw[..., 4].sigmoid().flatten()
        certain = scores > self.floor
        scores = scores.masked_select(certain)
        boxes = boxes[certain]
        scores = self.suppress(boxes, scores)
        flipped = boxes[:, [1, 0, 3, 2]]
        return flipped, scores


def build(device):
    torch.manual_seed(10)
    return AnchorHead().to(device).eval(), (torch.randn(1, CHANNELS, GRID, GRID, device=device),)
