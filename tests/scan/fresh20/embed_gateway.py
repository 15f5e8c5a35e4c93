"""Asyncio gateway that embeds texts; concurrent handlers share one model and its graphs."""
import asyncio
import contextlib
import logging

import torch
from torch import nn

log = logging.getLogger("gateway")


class Embedder(nn.Module):
    def __init__(self, vocab=120, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, ids, valid):
        if ids.shape[1] > 8:
            assert (ids.sum(1) > 0).all(), "empty row"
        tokens = self.emb(ids) * valid[..., None]
        pooled = self.proj(tokens.sum(1) / valid.sum(1, keepdim=True).clamp_min(1))
        centered = pooled - pooled.mean(0)
        return nn.functional.normalize(centered, dim=-1)


class Bucket:
    def __init__(self, model, rows, length, device):
        self.model, self.rows, self.length = model, rows, length
        self.ids = torch.ones(rows, length, dtype=torch.long, device=device)
        self.valid = torch.zeros(rows, length, device=device)
        self.graph = self.out = None

    def warm(self, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.model(self.ids, self.valid)
            self.model(self.ids, self.valid)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream):
                self.out = self.model(self.ids, self.valid)
            self.graph = graph
        except Exception as error:
            log.info("bucket %d stays eager: %s", self.length, error)

    def run(self, ids, valid):
        n = ids.shape[0]
        self.ids[:n].copy_(ids)
        self.valid[:n].copy_(valid)
        if self.graph is None:
            return self.model(self.ids, self.valid)[:n]
        self.graph.replay()
        return self.out[:n]


class Gateway:
    def __init__(self, device):
        self.device = device
        self.model = Embedder().to(device).eval()
        lane = torch.cuda.Stream(device)
        self.buckets = [Bucket(self.model, 4, length, device) for length in (4, 8, 12)]
        for bucket in self.buckets:
            bucket.warm(lane)
        self.limit = asyncio.Semaphore(4)

    @contextlib.asynccontextmanager
    async def admission(self):
        async with self.limit:
            await asyncio.sleep(0)
            yield

    async def handle(self, texts):
        longest = max(len(t) for t in texts)
        bucket = next(b for b in self.buckets if b.length >= longest)
        ids = torch.zeros(len(texts), bucket.length, dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor([ord(c) % 120 for c in text])
        ids = ids.pin_memory().to(self.device, non_blocking=True)
        async with self.admission():
            vectors = bucket.run(ids, (ids > 0).float())
            await asyncio.sleep(0.001)
            return float(vectors.norm()), (vectors @ vectors[0]).tolist()


async def traffic(gateway):
    words = ["sun", "moonlight", "tide", "aurora", "ice", "harbour"]
    jobs = []
    for i in range(12):
        jobs.append(gateway.handle([words[(i + j) % 6] for j in range(1 + i % 3)]))
    return await asyncio.gather(*jobs)


def main(device="cuda"):
    torch.manual_seed(0)
    with torch.inference_mode():
        for norm, row in asyncio.run(traffic(Gateway(torch.device(device)))):
            print(round(norm, 3), len(row))


if __name__ == "__main__":
    main()
