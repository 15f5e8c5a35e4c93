import torch
from torch import nn


class GraphTable:
    def __init__(self, fn):
        self.fn = fn
        self.table = {}

    def __call__(self, x, power):
        key = (tuple(x.shape), x.dtype, power)
        hit = self.table.get(key)
        if hit is None:
            hit = self.table[key] = self._make(x, power)
        graph, src, dst = hit
        src.copy_(x)
        graph.replay()
        return dst.clone()

    @torch.no_grad()
    def _make(self, x, power):
        src = x.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.fn(src, power)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dst = self.fn(src, power)
        return graph, src, dst


def main(device="cuda"):
    body = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6)).to(device).eval()
    table = GraphTable(lambda x, power: body(x).abs().pow(power))
    results = []
    for n, power in ((2, 1), (2, 2), (4, 1), (2, 1)):
        results.append(table(torch.randn(n, 12, device=device), power).sum())
    print(torch.stack(results))


if __name__ == "__main__":
    main()
