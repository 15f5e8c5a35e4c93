"""Embeds documents in one task and indexes them in another."""
import asyncio

import torch
from torch import nn

ROWS, WIDTH, DIM, JOBS = 12, 64, 24, 60


class Embedder:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(WIDTH, 96), nn.SiLU(), nn.Linear(96, DIM)).to(device)
        self.docs = torch.zeros(ROWS, WIDTH, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.embed()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            self.vectors = self.embed()

    def embed(self):
        return nn.functional.normalize(self.net(self.docs), dim=-1)

    def __call__(self, docs):
        self.docs.copy_(docs)
        self.graph.replay()
        return self.vectors.clone()


async def produce(embedder, documents, line):
    for i in range(JOBS):
        await line.put((i, embedder(documents[i])))
    await line.put(None)


async def index(line, centroid, spread):
    while (job := await line.get()) is not None:
        i, vectors = job
        centroid.add_(vectors.mean(0))
        spread.add_((vectors @ vectors.T).mean() * (1 + i % 3))


async def serve(embedder, documents, device):
    line = asyncio.Queue(maxsize=6)
    centroid = torch.zeros(DIM, device=device)
    spread = torch.zeros((), device=device)
    await asyncio.gather(produce(embedder, documents, line), index(line, centroid, spread))
    return centroid, spread


@torch.no_grad()
def main():
    torch.manual_seed(18)
    device = torch.device("cuda")
    embedder = Embedder(device)
    documents = torch.randn(JOBS, ROWS, WIDTH).to(device)
    centroid, spread = asyncio.run(serve(embedder, documents, device))
    print(f"jobs {JOBS} centroid {centroid.norm().item():.5f} spread {spread.item():.5f}")


if __name__ == "__main__":
    main()
