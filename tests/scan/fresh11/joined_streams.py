"""Three branches on side streams that all come back before the fusion."""
from contextlib import ExitStack

import torch
import torch.nn as nn


class Fork:
    """Runs functions beside the current stream; the streams are joined when the block ends."""

    def __init__(self, streams):
        self.streams = streams

    def __enter__(self):
        self.home = torch.cuda.current_stream(self.streams[0].device)
        self.used = []
        return self

    def run(self, index, fn, *args):
        stream = self.streams[index]
        stream.wait_stream(self.home)
        with torch.cuda.stream(stream):
            result = fn(*args)
        self.used.append(stream)
        return result

    def __exit__(self, *exc):
        for stream in self.used:
            self.home.wait_stream(stream)


class Branch(nn.Module):
    def __init__(self, kernel: int):
        super().__init__()
        self.conv = nn.Conv1d(6, 12, kernel, padding=kernel // 2)

    def forward(self, x):
        return torch.relu(self.conv(x))


class Inception(nn.Module):
    def __init__(self, device: torch.device, kernels=(1, 3, 5)):
        super().__init__()
        self.branches = nn.ModuleList(Branch(k) for k in kernels)
        self.fuse = nn.Conv1d(12 * len(kernels), 6, 1)
        self.streams = [torch.cuda.Stream(device) for _ in kernels]

    def forward(self, x):
        with ExitStack() as stack:
            fork = stack.enter_context(Fork(self.streams))
            parts = [fork.run(i, b, x) for i, b in enumerate(self.branches)]
        return x + self.fuse(torch.cat(parts, dim=1))


class Net(nn.Module):
    def __init__(self, device: torch.device, depth: int = 2):
        super().__init__()
        self.blocks = nn.ModuleList(Inception(device) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.mean(-1)


def build(device):
    torch.manual_seed(57)
    net = Net(torch.device(device)).to(device).eval().requires_grad_(False)
    return net, (torch.randn(2, 6, 40, device=device),)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args))
