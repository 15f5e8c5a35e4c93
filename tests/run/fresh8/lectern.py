"""Sentence embeddings: texts of different lengths are padded to one batch that a recorded encoder reads."""

import torch
from torch import nn

ROWS, LENGTH, VOCAB, DIM = 12, 32, 300, 48


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)
        self.norm = nn.LayerNorm(DIM)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        score = q @ k.transpose(1, 2) / DIM**0.5
        score = score.masked_fill(~mask[:, None, :], -1e9)
        return x + self.out(score.softmax(-1) @ v)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, mask)
        weight = mask.to(x.dtype)[..., None]
        return (x * weight).sum(1) / weight.sum(1)


class Batch:
    """The static memory of the recorded encoder."""

    def __init__(self, device: torch.device) -> None:
        self.ids = torch.zeros(ROWS, LENGTH, dtype=torch.long, device=device)
        self.lengths = torch.full((ROWS,), LENGTH, dtype=torch.long, device=device)
        self.mask = torch.arange(LENGTH, device=device)[None] < self.lengths[:, None]

    def load(self, texts: list[list[int]]) -> None:
        ids = torch.zeros(ROWS, LENGTH, dtype=torch.long)
        lengths = torch.ones(ROWS, dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
            lengths[row] = len(text)
        self.ids.copy_(ids)
        self.lengths.copy_(lengths)


class Embedder:
    def __init__(self, device: torch.device) -> None:
        self.encoder = Encoder().to(device).eval()
        self.batch = Batch(device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.encoder(self.batch.ids, self.batch.mask)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.vectors = self.encoder(self.batch.ids, self.batch.mask)

    def embed(self, texts: list[list[int]]) -> torch.Tensor:
        self.batch.load(texts)
        self.graph.replay()
        return self.vectors[: len(texts)].cpu()


def corpus(count: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(count)
    lengths = torch.randint(3, LENGTH + 1, (count,), generator=draw).tolist()
    return [torch.randint(1, VOCAB, (length,), generator=draw).tolist() for length in lengths]


@torch.no_grad()
def main() -> None:
    torch.manual_seed(31)
    embedder = Embedder(torch.device("cuda"))
    texts = corpus(90)
    parts = [embedder.embed(texts[at : at + ROWS]) for at in range(0, len(texts), ROWS)]
    table = nn.functional.normalize(torch.cat(parts), dim=-1)
    near = (table @ table.t()).fill_diagonal_(-1).argmax(1)
    print("embedded", len(table), "texts; neighbours of the first five:", near[:5].tolist())


if __name__ == "__main__":
    main()
