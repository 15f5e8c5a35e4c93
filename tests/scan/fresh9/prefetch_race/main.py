"""A prefetcher fills the static input of a graph on its own stream."""

import torch
from torch import nn


class Prefetcher:
    def __init__(self, source, target, device):
        self.source = iter(source)
        self.target = target
        self.stream = torch.cuda.Stream(device)

    def load(self):
        try:
            batch = next(self.source)
        except StopIteration:
            return False
        with torch.cuda.stream(self.stream):
            self.target.copy_(batch, non_blocking=True)
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
        return self.static_out.clone()


def loader(count, batch, width):
    for _ in range(count):
        yield torch.randn(batch, width).pin_memory()


def main():
    device = torch.device("cuda")
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
    graphed = GraphedModel(model, torch.zeros(4, 8, device=device))
    feed = Prefetcher(loader(5, 4, 8), graphed.static_in, device)
    total = torch.zeros(4, 2, device=device)
    while feed.load():
        total += graphed.run()
    print(total.sum())


if __name__ == "__main__":
    main()
