"""Speculative decoding for one stream: a draft proposes, the target verifies, one graph per window."""
import argparse
import time

import torch
import torch.nn as nn


class TinyLM(nn.Module):
    def __init__(self, vocab, width, depth):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(4096, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                                  nn.Linear(4 * width, width)) for _ in range(depth))
        self.out = nn.Linear(width, vocab, bias=False)

    def forward(self, ids, where):
        h = self.emb(ids) + self.pos(where)
        for b in self.blocks:
            h = h + b(h)
        return self.out(h)


class Speculator:
    def __init__(self, target, draft, device, window=4):
        self.target, self.draft, self.device = target, draft, device
        self.window = window
        self.greedy = True
        self.depth = 0
        self.last = torch.zeros(1, dtype=torch.long, device=device)
        self.guess = torch.zeros(window, dtype=torch.long, device=device)
        self.verdict = torch.zeros(window, dtype=torch.long, device=device)
        self.taken = torch.zeros((), dtype=torch.long, device=device)
        self.steps = torch.arange(window, device=device)
        self._graphs = {}

    def _pick(self, logits):
        if self.greedy:
            return logits.argmax(-1)
        return torch.multinomial(logits.softmax(-1), 1).squeeze(-1)

    def _round(self, w):
        tok = self.last
        where = self.steps + self.depth
        for j in range(w):
            tok = self._pick(self.draft(tok, where[j:j + 1]))
            self.guess[j:j + 1].copy_(tok)
        feed = torch.cat([self.last, self.guess[:w - 1]])
        self.verdict[:w].copy_(self._pick(self.target(feed, where[:w])))
        same = (self.verdict[:w] == self.guess[:w]).long().cumprod(0)
        self.taken.copy_(same.sum().clamp(max=w - 1))
        self.last.copy_(self.verdict.index_select(0, self.taken.view(1)))

    def _record(self, w):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._round(w)
        torch.cuda.current_stream(self.device).wait_stream(side)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            self._round(w)
        return g

    @torch.no_grad()
    def advance(self, w):
        g = self._graphs.get(w)
        if g is None:
            keep = self.last.clone()
            g = self._graphs[w] = self._record(w)
            self.last.copy_(keep)
        g.replay()
        n = self.taken.item() + 1
        self.depth += n
        return self.verdict[:n].tolist()


def generate(spec, prompt_token, budget, explore_after):
    spec.last.fill_(prompt_token)
    spec.depth = 0
    text = []
    while len(text) < budget:
        spec.greedy = len(text) < explore_after
        left = budget - len(text)
        text.extend(spec.advance(spec.window if left >= spec.window else 2))
    return text[:budget]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--budget", type=int, default=200)
    ap.add_argument("--explore-after", type=int, default=64)
    ns = ap.parse_args()
    dev = torch.device("cuda", 0)
    torch.cuda.set_device(dev)
    spec = Speculator(TinyLM(512, 128, 4).to(dev).eval(), TinyLM(512, 64, 1).to(dev).eval(), dev)
    t0 = time.perf_counter()
    text = generate(spec, 7, ns.budget, ns.explore_after)
    print(f"{len(text)} tokens, {len(text) / (time.perf_counter() - t0):.1f}/s")


if __name__ == "__main__":
    main()
