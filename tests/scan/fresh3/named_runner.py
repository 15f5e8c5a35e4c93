"""Wrap any module in a CUDA graph with named input buffers, and score a resident data set."""
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
        if inputs.keys() != self.buffers.keys():
            raise KeyError(f"expected {sorted(self.buffers)}")
        for name, value in inputs.items():
            buffer = self.buffers[name]
            if value.shape != buffer.shape:
                raise ValueError(f"{name}: {tuple(value.shape)} is not {tuple(buffer.shape)}")
            buffer.copy_(value, non_blocking=True)
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
    def __init__(self, runner, count, batch, device):
        self.runner = runner
        self.kept = torch.zeros(count, batch, device=device)
        self.filled = 0

    def score(self, batches):
        for number, (query, item) in enumerate(batches):
            self.kept[number].copy_(self.runner(query=query, item=item))
            self.filled = number + 1

    def spread(self):
        return self.kept[: self.filled].std(0).cpu()


def make_batches(count, batch):
    generator = torch.Generator().manual_seed(3)
    return [
        (
            torch.randn(batch, 8, generator=generator).pin_memory(),
            torch.randn(batch, 12, generator=generator).pin_memory(),
        )
        for _ in range(count)
    ]


def main():
    device = torch.device("cuda", 0)
    model = TwoTower().to(device).eval()
    batches = make_batches(5, 4)
    example = {"query": torch.zeros(4, 8), "item": torch.zeros(4, 12)}
    scorer = Scorer(GraphRunner(model, example, device), len(batches), 4, device)
    scorer.score(batches)
    print(scorer.spread())


if __name__ == "__main__":
    main()
