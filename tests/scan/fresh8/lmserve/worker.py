"""One model worker: parameters, key/value memory and the decode graphs."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .requests import Roster

LADDER = (1, 2, 4, 8, 16)


class Attention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, keys, values, slot, pos, extent):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        keys[slot, pos] = k
        values[slot, pos] = v
        past_k = keys[slot, :extent]
        past_v = values[slot, :extent]
        steps = torch.arange(extent, device=x.device)
        live = steps[None, :] <= pos[:, None]
        score = (past_k @ q.unsqueeze(-1)).squeeze(-1) / q.shape[-1] ** 0.5
        score = score.masked_fill(~live, float("-inf"))
        mixed = (score.softmax(-1).unsqueeze(1) @ past_v).squeeze(1)
        return x + self.out(mixed)


class Decoder(nn.Module):
    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.attn = Attention(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, tok, keys, values, slot, pos, extent):
        h = self.attn(self.embed(tok), keys, values, slot, pos, extent)
        return F.log_softmax(self.head(h), dim=-1)


class Worker:
    def __init__(self, model: Decoder, slots: int, limit: int, device: torch.device):
        self.model = model.to(device).eval()
        self.device = device
        width = model.embed.embedding_dim
        self.keys = torch.zeros(slots, limit, width, device=device)
        self.values = torch.zeros(slots, limit, width, device=device)
        top = LADDER[-1]
        self.tok = torch.zeros(top, dtype=torch.int64, device=device)
        self.pos = torch.zeros(top, dtype=torch.int64, device=device)
        self.slot = torch.zeros(top, dtype=torch.int64, device=device)
        self.extent = LADDER[-1]
        self.plans: dict[int, torch.cuda.CUDAGraph] = {}
        self.picked: dict[int, torch.Tensor] = {}
        self.stream = torch.cuda.Stream(device)

    def _decode(self, rows: int):
        scores = self.model(
            self.tok[:rows], self.keys, self.values,
            self.slot[:rows], self.pos[:rows], self.extent,
        )
        return scores.argmax(-1)

    @torch.inference_mode()
    def prepare(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        pool = None
        for rows in reversed(LADDER):
            with torch.cuda.stream(self.stream):
                for _ in range(2):
                    self._decode(rows)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=self.stream):
                self.picked[rows] = self._decode(rows)
            pool = pool or graph.pool()
            self.plans[rows] = graph
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    @torch.inference_mode()
    def tick(self, tokens: torch.Tensor, roster: Roster) -> torch.Tensor:
        n = tokens.shape[0]
        rows = next(r for r in LADDER if r >= n)
        self.tok[:n].copy_(tokens)
        self.pos[:n].copy_(roster.positions)
        self.slot[:n].copy_(roster.slots)
        self.extent = roster.longest
        self.plans[rows].replay()
        return self.picked[rows][:n]
