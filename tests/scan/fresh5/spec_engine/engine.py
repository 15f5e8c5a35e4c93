from __future__ import annotations

import torch

from .nets import CachedLM
from .phases import Cursor, Draft, Verify


class SpecEngine:
    def __init__(self, vocab: int, ctx: int, depth: int, device):
        self.ctx, self.depth = ctx, depth
        small = CachedLM(vocab, 16, ctx).to(device).eval()
        large = CachedLM(vocab, 48, ctx).to(device).eval()
        self.cursor = Cursor()
        self.draft = Draft(small, depth, self.cursor, device)
        self.verify = Verify(large, self.draft, device)

    @torch.no_grad()
    def warm(self) -> None:
        pool = torch.cuda.graph_pool_handle()
        for phase in (self.draft, self.verify):
            phase.prepare(pool)

    @torch.no_grad()
    def generate(self, first: torch.Tensor, want: int) -> torch.Tensor:
        self.draft.seed.copy_(first)
        pieces, made = [], 0
        while made < want and self.cursor.offset + self.depth + 1 < self.ctx:
            self.draft()
            self.verify()
            count = 1 + self.verify.accepted.item()
            pieces.append(self.verify.wanted[:count].clone())
            self.verify.settle()
            self.cursor.advance(count)
            made += count
        return torch.cat(pieces)[:want]


def generate(device="cuda", want: int = 24):
    torch.manual_seed(0)
    engine = SpecEngine(64, 128, 4, device)
    engine.warm()
    return engine.generate(torch.tensor([7], device=device), want)
