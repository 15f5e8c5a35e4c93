"""Embedding service: captured for batches up to MAX_BATCH, requests come in many sizes."""
import bisect

import torch
from torch import nn

DEV = torch.device("cuda")
DIM = 96
SIZES = [1, 2, 4, 8, 16]
MAX_BATCH = SIZES[-1]


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM), nn.LayerNorm(DIM))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


class Service:
    def __init__(self, model):
        self.model = model
        self.x = torch.zeros(MAX_BATCH, DIM, device=DEV)
        self.graphs, self.out = {}, {}
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream()
        for size in reversed(SIZES):
            view = self.x[:size]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                model(view)
                model(view)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self.out[size] = model(view)
            self.graphs[size] = graph

    def _small(self, batch):
        n = batch.shape[0]
        size = SIZES[bisect.bisect_left(SIZES, n)]
        self.x[:n].copy_(batch)
        self.x[n:size].zero_()
        self.graphs[size].replay()
        return self.out[size][:n].clone()

    def embed(self, batch):
        if batch.shape[0] <= MAX_BATCH:
            return self._small(batch)
        return torch.cat([self._small(part) for part in batch.split(MAX_BATCH)])


@torch.no_grad()
def main():
    torch.manual_seed(4)
    service = Service(Embedder().to(DEV).eval())
    centre = torch.zeros(DIM, device=DEV)
    for n in [1, 2, 3, 24, 5, 16, 20, 7, 9, 32, 4, 24, 1, 20]:
        vectors = service.embed(torch.randn(n, DIM, device=DEV))
        centre += vectors.mean(0)
    print(round(float(centre.norm()), 4))


if __name__ == "__main__":
    main()
