"""Speculative decoding: draft, verify, and a plain single step when acceptance has been poor."""
import random
from collections import deque

import torch

DEV = torch.device("cuda")
VOCAB, DIM, K = 256, 48, 4


class Lm:
    def __init__(self, seed, layers):
        gen = torch.Generator().manual_seed(seed)
        self.emb = torch.randn(VOCAB, DIM, generator=gen).to(DEV)
        self.w = [(torch.randn(DIM, DIM, generator=gen) / 7).to(DEV) for _ in range(layers)]

    def __call__(self, ids):
        h = self.emb[ids]
        for w in self.w:
            h = torch.tanh(h @ w)
        return h @ self.emb.t()


def graph_of(fn):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        fn()
        fn()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return graph


class Speculator:
    def __init__(self):
        self.small, self.large = Lm(1, 1), Lm(2, 4)
        self.last = torch.zeros(1, dtype=torch.long, device=DEV)
        self.guess = torch.zeros(K, dtype=torch.long, device=DEV)
        self.accepted = torch.zeros((), device=DEV)
        self.recent = deque(maxlen=6)
        self.draft = graph_of(self.draft_step)
        self.verify = graph_of(self.verify_step)
        self.single = graph_of(self.single_step)

    def draft_step(self):
        tok = self.last
        for i in range(K):
            tok = self.small(tok).argmax(-1)
            self.guess[i:i + 1].copy_(tok)

    def verify_step(self):
        chosen = self.large(self.guess).argmax(-1)
        self.accepted.add_((chosen == self.guess).float().sum())
        self.last.copy_(chosen[-1:])

    def single_step(self):
        self.last.copy_(self.large(self.last).argmax(-1))

    def poor(self):
        if len(self.recent) == self.recent.maxlen:
            return sum(self.recent) < 9
        return False

    def advance(self, estimate):
        if self.poor():
            self.single.replay()
            self.recent.clear()
            return
        self.draft.replay()
        self.verify.replay()
        self.recent.append(estimate)


@torch.no_grad()
def main():
    spec = Speculator()
    rng = random.Random(5)
    for _ in range(36):
        spec.advance(rng.randint(0, 2))
    print(float(spec.accepted) + int(spec.last))


if __name__ == "__main__":
    main()
