import torch
from torch import nn

from .pool import BlockPool


class TinyLM(nn.Module):
    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids, slots, table, lens, pool: BlockPool):
        q, k, v = self.qkv(self.emb(ids)).chunk(3, dim=-1)
        pool.k.index_copy_(0, slots, k)
        pool.v.index_copy_(0, slots, v)
        offs = torch.arange(pool.block_size, device=ids.device)
        where = (table[:, :, None] * pool.block_size + offs).flatten(1)
        keys, vals = pool.k[where], pool.v[where]
        att = (keys @ q[:, :, None]).squeeze(-1)
        live = torch.arange(where.shape[1], device=ids.device) < lens[:, None]
        att = att.masked_fill(~live, -1e9).softmax(-1)
        return self.out((att[:, None] @ vals).squeeze(1))


class Engine:
    def __init__(self, model: TinyLM, pool: BlockPool, sizes, max_blocks: int, device: torch.device):
        self.model, self.pool, self.sizes = model, pool, sorted(sizes)
        top = self.sizes[-1]
        self.stream = torch.cuda.Stream(device)
        self.ids = torch.zeros(top, dtype=torch.int64, device=device)
        self.slots = torch.zeros(top, dtype=torch.int64, device=device)
        self.lens = torch.ones(top, dtype=torch.int64, device=device)
        self.table = torch.zeros(top, max_blocks, dtype=torch.int64, device=device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.logits: dict[int, torch.Tensor] = {}

    @torch.no_grad()
    def warm(self) -> None:
        for n in reversed(self.sizes):
            view = (self.ids[:n], self.slots[:n], self.table[:n], self.lens[:n])
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.model(*view, self.pool)
            torch.cuda.current_stream().wait_stream(self.stream)
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g, stream=self.stream):
                self.logits[n] = self.model(*view, self.pool)
            self.graphs[n] = g

    def decode(self, rows: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        n = rows.shape[1]
        size = next(s for s in self.sizes if s >= n)
        self.ids[:n].copy_(rows[0])
        self.slots[:n].copy_(rows[1])
        self.lens[:n].copy_(rows[2])
        self.table[:n].copy_(table)
        self.graphs[size].replay()
        return self.logits[size][:n]
