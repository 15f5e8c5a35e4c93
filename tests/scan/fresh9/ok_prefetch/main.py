"""A prefetcher with a staging buffer, ordered with the graph both ways."""

import torch
from torch import nn


class Prefetcher:
    def __init__(self, source, like, device):
        self.source = iter(source)
        self.stage = torch.empty_like(like)
        self.stream = torch.cuda.Stream(device)
        self.batch = None
        self._start()

    def _start(self):
        self.batch = next(self.source, None)
        if self.batch is None:
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.stage.copy_(self.batch, non_blocking=True)

    def into(self, target):
        if self.batch is None:
            return False
        torch.cuda.current_stream().wait_stream(self.stream)
        target.copy_(self.stage)
        self._start()
        return True


class GraphedModel:
    def __init__(self, model, example):
        self.static_in = example.clone()
        stream = torch.cuda.Stream(example.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                model(self.static_in)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.static_out = model(self.static_in)

    def run(self):
        self.graph.replay()
        return self.static_out


def loader(count, batch, width):
    for _ in range(count):
        yield torch.randn(batch, width).pin_memory()


def main():
    device = torch.device("cuda")
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
    graphed = GraphedModel(model, torch.zeros(4, 8, device=device))
    feed = Prefetcher(loader(5, 4, 8), graphed.static_in, device)
    total = torch.zeros(4, 2, device=device)
    while feed.into(graphed.static_in):
        total += graphed.run()
    print(total.sum())


if __name__ == "__main__":
    main()
