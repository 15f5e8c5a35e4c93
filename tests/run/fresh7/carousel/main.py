"""Upscales tiles of three sizes; each size has its own prepared executor."""
import functools

import torch
from torch import nn

TILES = (8, 12, 16)


class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(3, 24)
        self.mid = nn.Linear(24, 24)
        self.back = nn.Linear(24, 12)

    def forward(self, tile):
        h = torch.relu(self.lift(tile))
        return self.back(h + torch.relu(self.mid(h)))


class Executor:
    def __init__(self, model, size, device):
        self.tile = torch.zeros(size * size, 3, device=device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                model(self.tile)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.big = model(self.tile)

    def __call__(self, tile):
        self.tile.copy_(tile)
        self.graph.replay()
        return self.big


def make_lookup(model, device):
    @functools.lru_cache(maxsize=2)
    def executor(size):
        return Executor(model, size, device)

    return executor


def frames(count, device):
    for n in range(count):
        size = TILES[n % len(TILES)]
        yield size, torch.rand(4, size * size, 3).to(device)


@torch.inference_mode()
def main():
    torch.manual_seed(11)
    device = torch.device("cuda")
    lookup = make_lookup(Upscaler().to(device).eval(), device)
    light = torch.zeros((), device=device)
    for size, tiles in list(frames(18, device)):
        for k in range(4):
            light.add_(lookup(size)(tiles[k]).mean())
    print(f"frames 18 light {light.item():.5f}")


if __name__ == "__main__":
    main()
