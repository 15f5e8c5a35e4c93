"""Restyles a video: a full graph computes the deep features, a quick graph reuses those of an earlier frame."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from features import FeatureCache

CHANNELS, SIZE = 12, 32


class StyleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.down = nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1)
        self.deep = nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.SiLU())
        self.leave = nn.Conv2d(CHANNELS, 3, 3, padding=1)

    def full(self, frame, style):
        return self.deep(F.silu(self.down(self.enter(frame))) + style.view(1, -1, 1, 1))

    def finish(self, frame, deep):
        return torch.tanh(self.leave(self.enter(frame) + F.interpolate(deep, scale_factor=2.0)))


class Stylizer:
    def __init__(self, styles, limit=0.4):
        self.net = StyleNet().cuda().eval()
        self.styles = styles
        self.limit = limit
        self.frame = torch.zeros(1, 3, SIZE, SIZE, device="cuda")
        self.style = styles["plain"].clone()
        self.cache = FeatureCache.empty(CHANNELS, SIZE)
        self.graphs = {}
        self.outputs = {}

    def run(self, kind):
        if kind == "full":
            self.cache.put(self.net.full(self.frame, self.style), self.frame)
        return self.net.finish(self.frame, self.cache.deep)

    def prepare(self):
        for kind in ("full", "quick"):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.run(kind)
                self.run(kind)
            torch.cuda.current_stream().wait_stream(side)
            self.graphs[kind] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[kind]):
                self.outputs[kind] = self.run(kind)

    def new_scene(self, style):
        self.style = self.styles[style]
        self.cache = FeatureCache.empty(CHANNELS, SIZE)

    def __call__(self, frame):
        self.frame.copy_(frame)
        kind = "full" if self.cache.drift(frame) > self.limit else "quick"
        self.graphs[kind].replay()
        return self.outputs[kind]
