"""Decodes groups of requests whose recurrent states live in slots of one table."""

from __future__ import annotations

import logging
from collections import Counter

import torch
from torch import nn

from .buckets import record

logger = logging.getLogger(__name__)


class SlotLM(nn.Module):
    """The last row of the table belongs to no request."""

    def __init__(self, vocabulary: int, width: int, slots: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("table", torch.zeros(slots + 1, width))

    @property
    def spare(self) -> int:
        return self.table.shape[0] - 1

    def forward(self, ids: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        state = self.cell(self.embed(ids), self.table.index_select(0, slots))
        self.table.index_copy_(0, slots, state)
        return self.head(state)


class Server:
    def __init__(self, model: SlotLM, sizes: tuple[int, ...], device):
        self.model = model
        self.sizes = sorted(sizes)
        stream = torch.cuda.Stream(device)
        self.buckets = {size: record(model, size, model.spare, stream, device) for size in self.sizes}
        self.used: Counter[int] = Counter()

    def bucket_for(self, n: int):
        for size in self.sizes:
            if size >= n:
                self.used[size] += 1
                return self.buckets[size]
        raise ValueError(f"{n} requests, but the largest bucket has {self.sizes[-1]} rows")

    def open(self, slots: torch.Tensor) -> None:
        self.model.table.index_fill_(0, slots, 0.0)

    def decode(self, first: torch.Tensor, slots: torch.Tensor, steps: int) -> torch.Tensor:
        n = first.shape[0]
        self.open(slots)
        ids, text = first, []
        for _ in range(steps):
            bucket = self.bucket_for(n)
            bucket.load(ids, slots, self.model.spare)
            ids = bucket.run()[:n].argmax(-1)
            text.append(ids)
        logger.debug("decoded %d steps of %d requests", steps, n)
        return torch.stack(text, 1)


@torch.no_grad()
def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    server = Server(SlotLM(40, 16, slots=12).to(device), (2, 4, 8), device)
    groups = [torch.tensor(rows).to(device) for rows in ([0, 3, 5, 7, 9, 11], [2], [1, 4, 8], [3, 0])]
    texts = [server.decode(torch.randint(0, 40, slots.shape, device=device), slots, steps=10) for slots in groups]
    print(dict(server.used), [text.tolist() for text in texts])


if __name__ == "__main__":
    main()
