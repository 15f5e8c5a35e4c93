"""Anchor-free detection head: feature maps in, detections of a batch out."""
from __future__ import annotations

from typing import Callable

import torch
from torch import nn

Postprocess = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], list]
STRATEGIES: dict[str, Postprocess] = {}


def strategy(name: str):
    def add(fn: Postprocess) -> Postprocess:
        STRATEGIES[name] = fn
        return fn

    return add


@strategy("per_class")
def best_of_each_class(boxes, scores, labels):
    found = []
    for c in torch.unique(labels):
        held = torch.where(labels == c, scores, -1.0)
        found.append(boxes[held.argmax()])
    return found


@strategy("ranked")
def strongest_first(boxes, scores, labels):
    order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
    return [boxes[i] for i in order[:16]]


def make_grid(h: int, w: int, stride: int, like: torch.Tensor) -> torch.Tensor:
    ys = torch.arange(h, device=like.device, dtype=like.dtype)
    xs = torch.arange(w, device=like.device, dtype=like.dtype)
    return torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1).flatten(0, 1).mul_(stride)


class Head(nn.Module):
    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.cls = nn.Conv2d(channels, classes, 1)
        self.reg = nn.Conv2d(channels, 4, 1)

    def forward(self, feat: torch.Tensor):
        return self.cls(feat).flatten(2).mT, self.reg(feat).flatten(2).mT


class Detector(nn.Module):
    def __init__(self, channels: int = 16, classes: int = 5, strides=(8, 16), keep: int = 32, *, post: tuple[str, ...]):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=strides[0], padding=1)
        self.down = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.heads = nn.ModuleList(Head(channels, classes) for _ in strides)
        self.strides = strides
        self.keep = keep
        self.post = [STRATEGIES[p] for p in post]

    def decode(self, image):
        feats = [self.stem(image).relu()]
        feats.append(self.down(feats[0]).relu())
        boxes, logits = [], []
        for feat, head, stride in zip(feats, self.heads, self.strides):
            cls, reg = head(feat)
            centre = make_grid(*feat.shape[-2:], stride, feat)
            reach = reg.exp() * stride
            boxes.append(torch.cat((centre - reach[..., :2], centre + reach[..., 2:]), -1))
            logits.append(cls)
        return torch.cat(boxes, 1), torch.cat(logits, 1).sigmoid()

    @torch.no_grad()
    def forward(self, image):
        boxes, probs = self.decode(image)
        scores, labels = probs.amax(-1), probs.argmax(-1)
        top, where = scores.topk(self.keep, dim=1)
        boxes = boxes.gather(1, where[..., None].expand(-1, -1, 4))
        labels = labels.gather(1, where)
        strong = (top > 0.5).sum(1)
        lists = [b.split([n, self.keep - n])[0] for b, n in zip(boxes, map(int, strong))]
        extra = [fn(b, s, c) for fn in self.post for b, s, c in zip(boxes, top, labels)]
        return lists, extra


def build(device, batch: int = 2, side: int = 64):
    torch.manual_seed(4)
    model = Detector(post=("per_class", "ranked")).to(device).eval()
    return model, (torch.rand(batch, 3, side, side, device=device),)
