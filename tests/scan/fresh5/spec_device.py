"""Speculative decoding in one graph a round, with acceptance decided on the device."""
from __future__ import annotations

import torch
from torch import nn


class CachedLM(nn.Module):
    def __init__(self, vocab: int, dim: int, ctx: int):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(ctx, dim)
        self.out = nn.Linear(dim, vocab)
        self.register_buffer("history", torch.zeros(ctx, dim))
        self.register_buffer("span", torch.arange(ctx))

    def forward(self, tokens: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        where = start + self.span[: tokens.shape[0]]
        h = self.tok(tokens) + self.pos(where)
        self.history.index_copy_(0, where, h)
        scores = h @ self.history.T
        scores = scores.masked_fill(self.span[None] > where[:, None], float("-inf"))
        return self.out(scores.softmax(-1) @ self.history)


class Round:
    """Draft `depth` tokens, verify them, append what survives to `text`."""

    def __init__(self, small: CachedLM, large: CachedLM, depth: int, ctx: int, device):
        self.small, self.large = small, large
        self.depth, self.ctx = depth, ctx
        self.length = torch.zeros(1, dtype=torch.long, device=device)
        self.seed = torch.zeros(1, dtype=torch.long, device=device)
        self.text = torch.zeros(ctx, dtype=torch.long, device=device)
        self.lanes = torch.arange(depth + 1, device=device)

    def work(self) -> None:
        token, drafted = self.seed, []
        for i in range(self.depth):
            token = self.small(token, self.length + i).argmax(-1)
            drafted.append(token)
        proposal = torch.cat([self.seed, *drafted])
        wanted = self.large(proposal, self.length).argmax(-1)
        agree = (wanted[:-1] == proposal[1:]).long().cumprod(0)
        accepted = agree.sum(0, keepdim=True)
        where = self.length + self.lanes
        kept = torch.where(self.lanes <= accepted, wanted, self.text[where])
        self.text.index_copy_(0, where, kept)
        self.seed.copy_(wanted.gather(0, accepted))
        self.length.add_(accepted + 1).clamp_(max=self.ctx - self.depth - 1)


class SpecDecoder:
    def __init__(self, vocab: int, ctx: int, depth: int, device):
        small = CachedLM(vocab, 16, ctx).to(device).eval()
        large = CachedLM(vocab, 48, ctx).to(device).eval()
        self.round = Round(small, large, depth, ctx, device)
        self.graph = torch.cuda.CUDAGraph()

    @torch.no_grad()
    def prepare(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.round.work()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.round.work()

    def start(self, first: torch.Tensor) -> None:
        self.round.seed.copy_(first)
        self.round.length.zero_()
        self.round.text.zero_()

    @torch.no_grad()
    def generate(self, first: torch.Tensor, rounds: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.start(first)
        for _ in range(rounds):
            self.graph.replay()
        return self.round.text.clone(), self.round.length.clone()


def main(device="cuda", rounds: int = 12):
    torch.manual_seed(0)
    decoder = SpecDecoder(64, 128, 4, device)
    decoder.prepare()
    text, length = decoder.generate(torch.tensor([7], device=device), rounds)
    return text[: int(length)].tolist()


if __name__ == "__main__":
    print(main())
