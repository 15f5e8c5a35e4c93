"""Text embedding service: graphs for the usual lengths are made before traffic."""
from types import SimpleNamespace

import torch
import torch.nn as nn

device = torch.device("cuda")
VOCAB, DIM = 200, 48
config = SimpleNamespace(batch=2, buckets=(16, 32, 64), requests=36)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.mix = nn.Sequential(nn.Linear(DIM, 96), nn.GELU(), nn.Linear(96, DIM))

    def forward(self, ids, mask):
        h = self.mix(self.embed(ids)) * mask[..., None]
        pooled = h.sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return nn.functional.normalize(pooled, dim=-1)


class GraphCache:
    """Graphs by the shape of `ids`; a shape that is not there yet is captured."""

    def __init__(self, fn):
        self.fn = fn
        self.pool = torch.cuda.graph_pool_handle()
        self.entries = {}

    def warm(self, shapes):
        for shape in shapes:
            self.get(shape)

    def get(self, shape):
        key = tuple(shape)
        if key not in self.entries:
            self.entries[key] = self._capture(key)
        return self.entries[key]

    @torch.no_grad()
    def _capture(self, shape):
        ids = torch.zeros(shape, dtype=torch.long, device=device)
        mask = torch.ones(shape, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.fn(ids, mask)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.fn(ids, mask)
        return SimpleNamespace(graph=graph, ids=ids, mask=mask, out=out)

    def run(self, ids, mask):
        entry = self.get(ids.shape)
        entry.ids.copy_(ids)
        entry.mask.copy_(mask)
        entry.graph.replay()
        return entry.out.clone()


def collate(texts):
    """Pads the texts of a batch to one length."""
    longest = max(len(t) for t in texts)
    width = longest
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    mask = torch.zeros(len(texts), width)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
        mask[row, : len(text)] = 1.0
    return ids.to(device), mask.to(device)


def traffic(n):
    gen = torch.Generator().manual_seed(82)
    for _ in range(n):
        yield [
            torch.randint(1, VOCAB, (int(length),), generator=gen).tolist()
            for length in torch.randint(5, 60, (config.batch,), generator=gen)
        ]


def main():
    torch.manual_seed(81)
    model = Embedder().to(device).eval()
    cache = GraphCache(model)
    cache.warm((config.batch, b) for b in config.buckets)

    batches = list(traffic(config.requests))
    got = torch.cat([cache.run(*collate(texts)) for texts in batches])

    with torch.no_grad():
        want = torch.cat([
            model(torch.tensor([text]).to(device), torch.ones(1, len(text)).to(device))
            for texts in batches
            for text in texts
        ])
    gap = float((got - want).abs().nan_to_num(1e9).max())
    print("RESULT", round(float(got.sum()), 4))
    print("CHECK ok" if gap < 1e-4 else f"CHECK wrong: embeddings differ by {gap:.4g}")


if __name__ == "__main__":
    main()
