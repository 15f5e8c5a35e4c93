"""Runs decode steps of a small attention model through one graph."""

import torch
from torch import nn

from .metadata import BatchMeta


class TinyAttention(nn.Module):
    def __init__(self, vocabulary: int, width: int, rows: int, window: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("keys", torch.zeros(rows, window, width))
        self.register_buffer("values", torch.zeros(rows, window, width))
        self.register_buffer("columns", torch.arange(window))

    def forward(self, ids: torch.Tensor, meta: BatchMeta) -> torch.Tensor:
        q, k, v = self.qkv(self.embed(ids)).chunk(3, -1)
        where = meta.positions.view(-1, 1, 1).expand(-1, 1, k.shape[-1])
        self.keys.scatter_(1, where, k.unsqueeze(1))
        self.values.scatter_(1, where, v.unsqueeze(1))
        scores = torch.einsum("bd,bld->bl", q, self.keys)
        scores = scores.masked_fill(self.columns >= meta.lengths.unsqueeze(1), float("-inf"))
        return self.head(torch.einsum("bl,bld->bd", scores.softmax(-1), self.values))


class Runner:
    def __init__(self, model: TinyAttention, rows: int, device):
        self.model = model
        self.ids = torch.zeros(rows, dtype=torch.int64, device=device)
        self.meta = BatchMeta.blank(rows, device)
        self.meta.lengths.fill_(1)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(self.ids, self.meta)
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.logits = model(self.ids, self.meta)
        model.keys.zero_()
        model.values.zero_()

    def decode(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        self.ids.copy_(ids)
        self.meta.fill(positions)
        self.graph.replay()
        return self.logits.argmax(-1)


@torch.no_grad()
def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    model = TinyAttention(40, 16, rows=4, window=32).to(device)
    runner = Runner(model, 4, device)
    ids = torch.randint(0, 40, (4,), device=device)
    positions = torch.tensor([0, 2, 1, 5]).to(device)
    tokens = []
    for _ in range(12):
        ids = runner.decode(ids, positions)
        positions = positions + 1
        tokens.append(ids)
    print(torch.stack(tokens, 1).tolist())


if __name__ == "__main__":
    main()
