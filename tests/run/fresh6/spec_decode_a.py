"""Speculative decoding: draft, verification and acceptance of a round in one graph, noise from an own generator."""
import contextlib
import time

import torch

DEV = torch.device("cuda")
VOCAB, DIM, GUESSES, ROUNDS, TALKS = 64, 48, 3, 7, 2


class Clock:
    """Marks phases; it reads the host's time, which means nothing inside a capture."""

    def __init__(self):
        self.marks = []

    def mark(self, phase):
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(f"mark({phase!r}) while a graph is captured")
        self.marks.append((phase, time.perf_counter()))


class Speculator:
    def __init__(self):
        g = torch.Generator().manual_seed(41)
        self.draft = torch.randn(VOCAB, VOCAB, generator=g).to(DEV)
        self.target = (self.draft.cpu() + 0.7 * torch.randn(VOCAB, VOCAB, generator=g)).to(DEV)
        self.rng = torch.Generator(device=DEV)
        self.token = torch.zeros(1, dtype=torch.long, device=DEV)
        self.length = torch.zeros(1, dtype=torch.long, device=DEV)
        self.clock = Clock()
        self.graph = None

    def round(self):
        chain, odds = [self.token.clone()], []
        for _ in range(GUESSES):
            q = torch.softmax(self.draft.index_select(0, chain[-1]), dim=-1)
            race = torch.empty(1, VOCAB, device=DEV).exponential_(generator=self.rng)
            guess = (q / race).argmax(dim=-1)
            p = torch.softmax(self.target.index_select(0, chain[-1]), dim=-1)
            odds.append((p / q).gather(1, guess.view(1, 1)).view(1))
            chain.append(guess)
        self.clock.mark("drafted")
        dice = torch.rand(GUESSES, generator=self.rng, device=DEV)
        accepted = (dice < torch.cat(odds)).long().cumprod(0).sum().view(1)
        fallback = self.target.index_select(0, torch.cat(chain).index_select(0, accepted)).argmax(dim=-1)
        self.length.copy_(accepted + 1)
        self.token.copy_(fallback)

    def capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            self.round()
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.rng)
        with contextlib.suppress(RuntimeError):     # old drivers cannot capture this
            with torch.cuda.graph(self.graph):
                self.round()

    def talk(self, first, seed):
        self.token.fill_(first)
        said = []
        for _ in range(ROUNDS):
            self.rng.manual_seed(seed)
            if self.graph is not None:
                self.graph.replay()
            else:
                self.round()
            said.append(torch.cat((self.token, self.length)))
        return torch.stack(said)


def plain(first, seed):
    """The same talk without a graph: one seed, then a running stream of noise."""
    s = Speculator()
    s.token.fill_(first)
    s.rng.manual_seed(seed)
    said = []
    for _ in range(ROUNDS):
        s.round()
        said.append(torch.cat((s.token, s.length)))
    return torch.stack(said)


@torch.no_grad()
def main():
    s = Speculator()
    s.capture()
    talks = [s.talk(5 + n, seed=900 + n) for n in range(TALKS)]
    torch.cuda.synchronize()
    good = all(torch.equal(talk, plain(5 + n, 900 + n)) for n, talk in enumerate(talks))
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
