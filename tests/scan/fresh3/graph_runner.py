"""Wrap any module in a CUDA graph with named input buffers."""
import torch
from torch import nn


class GraphRunner:
    def __init__(self, module, example, device, warmup=3):
        self.module = module
        self.device = device
        self.buffers = {name: value.to(device) for name, value in example.items()}
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(self.stream):
            for _ in range(warmup):
                module(**self.buffers)
        torch.cuda.current_stream(device).wait_stream(self.stream)
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self.output = module(**self.buffers)

    def __call__(self, **inputs):
        for name, value in inputs.items():
            self.buffers[name] = value.to(self.device)
        self.graph.replay()
        return self.output


class TwoTower(nn.Module):
    def __init__(self, query=8, item=12, dim=16):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(query, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.item = nn.Sequential(nn.Linear(item, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, query, item):
        return torch.cosine_similarity(self.query(query), self.item(item), dim=-1)


class Scorer:
    def __init__(self, runner):
        self.runner = runner
        self.kept = []

    def score(self, batches):
        for query, item in batches:
            self.kept.append(self.runner(query=query, item=item))
        return torch.stack(self.kept)


def make_batches(count, batch):
    generator = torch.Generator().manual_seed(3)
    for _ in range(count):
        yield torch.randn(batch, 8, generator=generator), torch.randn(batch, 12, generator=generator)


def main():
    device = torch.device("cuda")
    model = TwoTower().to(device).eval()
    example = {"query": torch.zeros(4, 8), "item": torch.zeros(4, 12)}
    scorer = Scorer(GraphRunner(model, example, device))
    scores = scorer.score(make_batches(5, 4))
    print(scores.std(0).cpu())


if __name__ == "__main__":
    main()
