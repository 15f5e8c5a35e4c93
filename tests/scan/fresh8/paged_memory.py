"""A paged key/value memory and the decode loop that works on it."""
from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

PAGE = 16


@dataclass
class Sequence:
    lane: int
    length: int = 0
    pages: list[int] = field(default_factory=list)


class PageTable:
    def __init__(self, lanes: int, pages: int, device: torch.device, columns: int = 4):
        self.device = device
        self.spare = list(range(pages))
        self.table = torch.zeros(lanes, columns, dtype=torch.int64, device=device)
        self.lengths = torch.zeros(lanes, dtype=torch.int64, device=device)
        self.touched = torch.zeros(lanes, dtype=torch.int64, device=device)

    def reserve(self, seq: Sequence) -> None:
        if seq.length < len(seq.pages) * PAGE:
            return
        page = self.spare.pop()
        column = len(seq.pages)
        if column == self.table.shape[1]:
            self.table = F.pad(self.table, (0, column))
        self.table[seq.lane, column : column + 1].fill_(page)
        seq.pages.append(page)

    def release(self, seq: Sequence) -> None:
        self.spare.extend(seq.pages)
        seq.pages.clear()
        seq.length = 0


class PagedAttention(nn.Module):
    def __init__(self, width: int, pages: int):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("k", torch.zeros(pages, PAGE, width))
        self.register_buffer("v", torch.zeros(pages, PAGE, width))

    def forward(self, x: torch.Tensor, book: PageTable) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        here = book.lengths
        page = book.table.gather(1, (here // PAGE)[:, None]).squeeze(1)
        self.k[page, here % PAGE] = k
        self.v[page, here % PAGE] = v
        extent = int(here.max()) + 1
        used = book.table[:, : math.ceil(extent / PAGE)]
        keys = self.k[used].flatten(1, 2)
        values = self.v[used].flatten(1, 2)
        score = (keys @ q.unsqueeze(-1)).squeeze(-1) / math.sqrt(q.shape[-1])
        span = torch.arange(keys.shape[1], device=x.device)
        score = score.masked_fill(span > here[:, None], float("-inf"))
        return x + (score.softmax(-1).unsqueeze(1) @ values).squeeze(1)


class Decode:
    def __init__(self, lanes: int, pages: int, width: int, device: torch.device):
        self.book = PageTable(lanes, pages, device)
        self.attend = PagedAttention(width, pages).to(device).eval()
        self.x = torch.zeros(lanes, width, device=device)
        self.running = [Sequence(lane) for lane in range(lanes)]
        self.clock = 0

    @torch.no_grad()
    def freeze(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.attend(self.x, self.book)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.attend(self.x, self.book)

    def evict(self, patience: int) -> None:
        idle = torch.nonzero(self.clock - self.book.touched > patience)
        self.book.lengths.index_fill_(0, idle.flatten(), 0)

    @torch.no_grad()
    def round(self) -> None:
        for seq in self.running:
            self.book.reserve(seq)
            self.book.lengths[seq.lane] = seq.length
        self.graph.replay()
        self.x.copy_(self.y)
        for seq in self.running:
            seq.length += 1
        self.book.touched.fill_(self.clock)
        self.clock += 1
        self.evict(patience=256)


def main() -> None:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    decode = Decode(lanes=8, pages=256, width=64, device=device)
    decode.freeze()
    for _ in range(200):
        decode.round()
    print(decode.x.norm().item())


if __name__ == "__main__":
    main()
