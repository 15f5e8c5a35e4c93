"""Batch-at-a-time decoding where the whole decoding state lives on the device."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

BUCKETS = (1, 2, 4, 8)


class TinyDecoder(nn.Module):
    def __init__(self, vocab: int = 256, dim: int = 32, rows: int = 8, ctx: int = 64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.register_buffer("kv", torch.zeros(rows, ctx, dim))
        self.register_buffer("span", torch.arange(ctx))

    def forward(self, tokens, rows, positions):
        h = self.embed(tokens)
        self.kv.index_put_((rows, positions), h)
        past = self.kv[: tokens.shape[0]]
        scores = torch.einsum("bd,btd->bt", h, past)
        scores = scores.masked_fill(self.span > positions[:, None], float("-inf"))
        ctx = torch.einsum("bt,btd->bd", scores.softmax(-1), past)
        return self.head(torch.tanh(self.mix(ctx + h)))


@dataclass(frozen=True)
class Key:
    rows: int
    greedy: bool


class RingRunner:
    def __init__(self, model: TinyDecoder, key: Key, device, length: int):
        self.model, self.key, self.length = model, key, length
        n = key.rows
        self.tokens = torch.zeros(n, dtype=torch.long, device=device)
        self.positions = torch.zeros(n, dtype=torch.long, device=device)
        self.rows = torch.arange(n, device=device)
        self.ring = torch.zeros(length, n, dtype=torch.long, device=device)

    def _step(self) -> None:
        logits = self.model(self.tokens, self.rows, self.positions)
        if self.key.greedy:
            chosen = logits.argmax(-1)
        else:
            race = torch.empty_like(logits).exponential_(1.0)
            chosen = (logits.softmax(-1) / race).argmax(-1)
        self.ring.scatter_(0, self.positions[None, :], chosen[None, :])
        self.tokens.copy_(chosen)
        self.positions.add_(1).remainder_(self.length)

    def capture(self, pool) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self._step()

    def load(self, prompt: list[int]) -> None:
        padded = prompt + [0] * (self.key.rows - len(prompt))
        staged = torch.tensor(padded, dtype=torch.long).pin_memory()
        self.tokens.copy_(staged, non_blocking=True)
        self.positions.zero_()
        self.ring.zero_()


class RingServer:
    def __init__(self, model: TinyDecoder, device, length: int = 32):
        self.model, self.device, self.length = model, device, length
        self.pool = torch.cuda.graph_pool_handle()
        self.runners: dict[Key, RingRunner] = {}

    def runner(self, n: int, greedy: bool) -> RingRunner:
        key = Key(next(b for b in BUCKETS if b >= n), greedy)
        found = self.runners.get(key)
        if found is None:
            found = self.runners[key] = RingRunner(self.model, key, self.device, self.length)
            found.capture(self.pool)
        return found

    @torch.no_grad()
    def generate(self, prompts: Iterable[list[int]], greedy: bool = True) -> Iterator[torch.Tensor]:
        for prompt in prompts:
            runner = self.runner(len(prompt), greedy)
            runner.load(prompt)
            for _ in range(self.length):
                runner.graph.replay()
            yield runner.ring[:, : len(prompt)].clone()


def main(device="cuda"):
    server = RingServer(TinyDecoder().to(device).eval(), device)
    outs = list(server.generate([[3, 4], [9], [1, 2, 3]]))
    outs += server.generate([[5, 6]], greedy=False)
    return [o.t().tolist() for o in outs]


if __name__ == "__main__":
    print(main())
