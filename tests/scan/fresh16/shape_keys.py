"""A service that finds corners in photos of several sizes; a decorator keeps the graphs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import wraps

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Entry:
    graph: torch.cuda.CUDAGraph
    flat: torch.Tensor
    out: torch.Tensor


def record(fn, shape):
    static = torch.zeros(shape, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            fn(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fn(static)
    return Entry(graph, static.view(-1), out)


def graphed(limit):
    """Replays a graph of the function; the graphs used last are kept."""

    def wrap(fn):
        entries: OrderedDict[int, Entry] = OrderedDict()

        @wraps(fn)
        def call(image):
            key = image.numel()
            if key not in entries:
                if len(entries) == limit:
                    entries.popitem(last=False)
                entries[key] = record(fn, image.shape)
            entries.move_to_end(key)
            entry = entries[key]
            entry.flat.copy_(image.reshape(-1))
            entry.graph.replay()
            return entry.out

        return call

    return wrap


class Corners(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 3, padding=1))

    def forward(self, image):
        heat = self.net(image)
        peaks = heat == F.max_pool2d(heat, 5, 1, 2)
        return torch.where(peaks, heat, 0.0).flatten(1).topk(8, -1)[1]


class PhotoService:
    def __init__(self):
        self.net = Corners().cuda().eval()
        self.find = graphed(limit=2)(self.net)
        self.done: dict[str, torch.Tensor] = {}

    def handle(self, name, photo):
        self.done[name] = self.find(photo)[0]


def photos(count):
    """Photos in both orientations, as they come from a queue."""
    sizes = [(16, 24), (24, 16), (32, 24), (40, 32)]
    for number in range(count):
        yield f"photo{number}", torch.rand(1, 1, *sizes[number % len(sizes)])


@torch.inference_mode()
def main():
    torch.manual_seed(9)
    service = PhotoService()
    for name, photo in photos(24):
        service.handle(name, photo)
    torch.save({name: corners.cpu() for name, corners in service.done.items()}, "corners.pt")


if __name__ == "__main__":
    main()
