import contextlib
import warnings

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width, anchors):
        super().__init__()
        self.box = nn.Conv2d(width, 4 * anchors, 1)
        self.score = nn.Conv2d(width, anchors, 1)

    def forward(self, x):
        return self.box(x), self.score(x).sigmoid()


class Detector(nn.Module):
    def __init__(self, width=16, anchors=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU())
        self.head = Head(width, anchors)

    def forward(self, img):
        box, score = self.head(self.stem(img))
        if not torch.isfinite(box).all():
            raise FloatingPointError("boxes diverged")
        return box, score


class MaybeGraphed:
    """Calls a module through a graph for each input shape, falls back to the module."""

    def __init__(self, module, limit=8):
        self.module = module
        self.limit = limit
        self.entries = {}
        self.refused = set()

    def _capture(self, x):
        static = x.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.module(static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            out = self.module(static)
        return static, graph, out

    @torch.no_grad()
    def __call__(self, x):
        key = tuple(x.shape)
        if key not in self.entries and key not in self.refused and len(self.entries) < self.limit:
            with contextlib.suppress(RuntimeError):
                self.entries[key] = self._capture(x)
            if key not in self.entries:
                self.refused.add(key)
        if key not in self.entries:
            return self.module(x)
        static, graph, out = self.entries[key]
        static.copy_(x)
        graph.replay()
        return out


def evaluate(loader, device):
    model = MaybeGraphed(Detector().to(device).eval())
    kept = []
    for batch in loader:
        box, score = model(batch.to(device, non_blocking=True))
        top = score.flatten(1).topk(10).indices
        kept.append((box, top))
    if not kept:
        warnings.warn("empty loader")
    return kept
