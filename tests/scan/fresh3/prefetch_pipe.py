"""Feed a captured forward from a prefetching loader with its own copy stream."""
import torch
from torch import nn


class Prefetcher:
    def __init__(self, source, shape, device):
        self.source = iter(source)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.host = torch.empty(shape, pin_memory=True)
        self.ready = torch.cuda.Event()

    def fill(self, target):
        batch = next(self.source, None)
        if batch is None:
            return False
        self.host.copy_(batch)
        with torch.cuda.stream(self.stream):
            target.copy_(self.host, non_blocking=True)
            self.ready.record()
        return True


class Classifier(nn.Module):
    def __init__(self, features=16, classes=5):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 64), nn.SiLU(), nn.Linear(64, classes))

    def forward(self, x):
        return self.net(x).softmax(-1)


class Pipeline:
    def __init__(self, model, shape, device):
        self.device = device
        self.x = torch.zeros(shape, device=device)
        self.histogram = torch.zeros(5, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.timer = torch.cuda.Event()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(stream):
            model(self.x)
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.probs = model(self.x)

    def run(self, loader):
        batches = 0
        while loader.fill(self.x):
            self.graph.replay()
            self.timer.record()
            self.histogram.add_(self.probs.sum(0))
            batches += 1
            if batches % 2 == 0:
                self.timer.synchronize()
        return self.histogram


def batches(count, shape):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        yield torch.randn(shape, generator=generator)


def main():
    device = torch.device("cuda")
    shape = (8, 16)
    model = Classifier().to(device).eval()
    pipeline = Pipeline(model, shape, device)
    histogram = pipeline.run(Prefetcher(batches(6, shape), shape, device))
    torch.cuda.synchronize()
    print(histogram.tolist())


if __name__ == "__main__":
    main()
