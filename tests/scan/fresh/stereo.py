"""A depth pipeline that overlaps two branches on streams."""
import contextlib

import torch
from torch import nn


class Lane:
    """A stream with an event that says when its work is finished."""

    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)
        self.finished = torch.cuda.Event()

    @contextlib.contextmanager
    def __call__(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.finished.record()
            yield

    def join(self):
        torch.cuda.current_stream().wait_event(self.finished)


class Branch(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.conv = nn.Conv2d(3, out, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x))


class Stereo(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.left, self.right = Branch(8), Branch(8)
        self.lane = Lane(device)
        self.merge = nn.Conv2d(16, 1, 1)
        self.keep = torch.zeros(1, 8, 16, 16, device=device)

    @torch.no_grad()
    def forward(self, a, b):
        with self.lane():
            self.keep.copy_(self.right(b))
        left = self.left(a)
        self.lane.join()
        depth = self.merge(torch.cat([left, self.keep], 1))
        torch.cuda.current_stream().wait_stream(self.lane.stream)
        return depth


def build(device):
    net = Stereo(device).to(device)
    return net, (torch.randn(1, 3, 16, 16, device=device), torch.randn(1, 3, 16, 16, device=device))
