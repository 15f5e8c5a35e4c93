"""Embeds a corpus: a copy lane brings the next chunk while the graph works on the device."""

import torch
from torch import nn


class Chunks:
    """Token chunks in pinned memory, all prepared before the first step."""

    def __init__(self, chunks: int, rows: int, length: int, vocabulary: int):
        gen = torch.Generator().manual_seed(0)
        tokens = torch.randint(0, vocabulary, (chunks, rows, length), generator=gen)
        self.pages = [page.pin_memory() for page in tokens]

    def __len__(self) -> int:
        return len(self.pages)

    def __iter__(self):
        return iter(self.pages)


class BagEmbedder(nn.Module):
    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.mix(self.table(ids)).mean(1), dim=-1)


class CorpusEmbedder:
    def __init__(self, model: BagEmbedder, rows: int, length: int, device):
        self.device = device
        self.model = model
        self.ids = torch.zeros(rows, length, dtype=torch.int64, device=device)
        self.lane = torch.cuda.Stream(device)
        capture = torch.cuda.Stream(device)
        capture.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(capture):
            for _ in range(3):
                model(self.ids)
        torch.cuda.current_stream(device).wait_stream(capture)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=capture):
            self.vectors = model(self.ids)

    def load(self, page: torch.Tensor) -> None:
        self.lane.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.lane):
            self.ids.copy_(page, non_blocking=True)

    def embed(self, chunks: Chunks) -> torch.Tensor:
        rows, width = self.vectors.shape
        found = torch.empty(len(chunks), rows, width, device=self.device)
        for i, page in enumerate(chunks):
            self.load(page)
            self.graph.replay()
            found[i].copy_(self.vectors)
        return found


@torch.no_grad()
def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    model = BagEmbedder(200, 16).to(device)
    embedder = CorpusEmbedder(model, rows=8, length=12, device=device)
    vectors = embedder.embed(Chunks(20, 8, 12, 200))
    print(vectors.shape, float(vectors.norm()))


if __name__ == "__main__":
    main()
