"""Feed a captured forward from a copy stream, double-buffered and ordered by events."""
import torch
from torch import nn


class Prefetcher:
    """Copies batch k+1 while batch k is computed; the events carry the order both ways."""

    def __init__(self, batches, shape, device):
        self.batches = [batch.pin_memory() for batch in batches]
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.slots = [torch.zeros(shape, device=device) for _ in range(2)]
        self.ready = [torch.cuda.Event() for _ in range(2)]
        self.free = [torch.cuda.Event() for _ in range(2)]
        for event in self.free:
            event.record(torch.cuda.current_stream(device))

    def _send(self, number):
        slot = number % 2
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.free[slot])
            self.slots[slot].copy_(self.batches[number], non_blocking=True)
            self.ready[slot].record(self.stream)

    def feed(self, target):
        main = torch.cuda.current_stream(self.device)
        self._send(0)
        for number in range(len(self.batches)):
            if number + 1 < len(self.batches):
                self._send(number + 1)
            slot = number % 2
            main.wait_event(self.ready[slot])
            target.copy_(self.slots[slot])
            self.free[slot].record(main)
            yield number


class Classifier(nn.Module):
    def __init__(self, features=16, classes=5):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 64), nn.SiLU(), nn.Linear(64, classes))

    def forward(self, x):
        return self.net(x).softmax(-1)


class Pipeline:
    def __init__(self, model, shape, device):
        self.model = model
        self.x = torch.zeros(shape, device=device)
        self.histogram = torch.zeros(5, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(stream):
            model(self.x)
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.probs = model(self.x)

    def run(self, loader):
        for _ in loader.feed(self.x):
            self.graph.replay()
            self.histogram.add_(self.probs.sum(0))


def make_batches(count, shape):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=generator) for _ in range(count)]


def main():
    device = torch.device("cuda", 0)
    shape = (8, 16)
    pipeline = Pipeline(Classifier().to(device).eval(), shape, device)
    loader = Prefetcher(make_batches(6, shape), shape, device)
    pipeline.run(loader)
    torch.cuda.synchronize(device)
    print(pipeline.histogram.tolist())


if __name__ == "__main__":
    main()
