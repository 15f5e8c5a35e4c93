"""Multi-adapter decode: the active adapter is copied into fixed slots before each replay."""
from dataclasses import dataclass

import torch

DEV = torch.device("cuda")
DIM, RANK = 96, 4


@dataclass
class Adapter:
    a: torch.Tensor
    b: torch.Tensor
    scaling: float


def make_adapter(seed, alpha):
    gen = torch.Generator().manual_seed(seed)
    a = (torch.randn(DIM, RANK, generator=gen) * 0.1).to(DEV)
    b = (torch.randn(RANK, DIM, generator=gen) * 0.1).to(DEV)
    return Adapter(a, b, alpha / RANK)


class Decoder:
    def __init__(self):
        gen = torch.Generator().manual_seed(0)
        self.w = (torch.randn(DIM, DIM, generator=gen) / DIM ** 0.5).to(DEV)
        self.a = torch.zeros(DIM, RANK, device=DEV)
        self.b = torch.zeros(RANK, DIM, device=DEV)
        self.graphs = {}

    def forward(self, x, scaling):
        return x @ self.w + scaling * ((x @ self.a) @ self.b)

    def build(self, batch, scaling):
        x = torch.zeros(batch, DIM, device=DEV)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.forward(x, scaling)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = self.forward(x, scaling)
        return graph, x, y

    def prepare(self, batches, adapter):
        for batch in batches:
            self.graphs[batch] = self.build(batch, adapter.scaling)

    def decode(self, x, adapter):
        self.a.copy_(adapter.a)
        self.b.copy_(adapter.b)
        graph, static, y = self.graphs[x.shape[0]]
        static.copy_(x)
        graph.replay()
        return y


@torch.no_grad()
def main():
    adapters = [make_adapter(1, 4.0), make_adapter(2, 16.0), make_adapter(3, 8.0)]
    decoder = Decoder()
    decoder.prepare((4, 2), adapters[0])
    gen = torch.Generator(device=DEV).manual_seed(77)
    score = torch.zeros((), device=DEV)
    for i in range(18):
        batch = 4 if i % 2 else 2
        x = torch.randn(batch, DIM, device=DEV, generator=gen)
        score += decoder.decode(x, adapters[i % 3]).abs().mean()
    print(round(float(score), 4))


main()
