"""Beam search: one captured step, back-pointers walked at the end of each prompt.  Run with --waits.

Every hop is a view of its own row of the history, and the stop flag comes over late, without
the host waiting for it: steps behind the end change nothing.
"""
from typing import NamedTuple

import torch

DEV = torch.device("cuda")
BATCH, BEAMS, VOCAB, WIDTH, STEPS, EOS = 3, 4, 96, 64, 18, 0


class Hop(NamedTuple):
    parent: torch.Tensor
    token: torch.Tensor


class Lm:
    def __init__(self):
        g = torch.Generator().manual_seed(5)
        self.emb = torch.randn(VOCAB, WIDTH, generator=g).to(DEV)
        self.mix = (torch.randn(WIDTH, WIDTH, generator=g) / 9).to(DEV)
        self.out = (torch.randn(WIDTH, VOCAB, generator=g) / 4).to(DEV)
        self.bias = torch.zeros(VOCAB).index_fill_(0, torch.tensor([EOS]), 3.2).to(DEV)

    def advance(self, hidden, token, score, finished):
        hidden = torch.tanh(self.emb[token] + hidden @ self.mix)
        logp = torch.log_softmax(hidden @ self.out + self.bias, dim=-1)
        only_eos = torch.full_like(logp, -1e9)
        only_eos[..., EOS].zero_()
        logp = torch.where(finished.unsqueeze(-1), only_eos, logp)
        total = (score.unsqueeze(-1) + logp).flatten(1)
        score, flat = total.topk(BEAMS, dim=1)
        parent = torch.div(flat, VOCAB, rounding_mode="floor")
        token = flat % VOCAB
        hidden = hidden.gather(1, parent.unsqueeze(-1).expand(-1, -1, WIDTH))
        finished = finished.gather(1, parent) | (token == EOS)
        return hidden, token, score, finished, parent


def fresh(prompt):
    hidden = torch.zeros(BATCH, BEAMS, WIDTH, device=DEV)
    token = prompt.view(BATCH, 1).repeat(1, BEAMS)
    score = torch.full((BATCH, BEAMS), -1e6, device=DEV)
    score[:, 0] = 0.0
    return hidden, token, score, torch.zeros(BATCH, BEAMS, dtype=torch.bool, device=DEV)


def walk_back(trail, score):
    """The best beam's tokens, EOS behind its end."""
    text = torch.full((BATCH, STEPS), EOS, device=DEV)
    beam = score.argmax(dim=1, keepdim=True)
    for t in range(len(trail) - 1, -1, -1):
        text[:, t] = trail[t].token.gather(1, beam).squeeze(1)
        beam = trail[t].parent.gather(1, beam)
    return text


class BeamSearch:
    def __init__(self, lm):
        self.state = fresh(torch.ones(BATCH, dtype=torch.long, device=DEV))
        self.history = torch.zeros(STEPS, 2, BATCH, BEAMS, dtype=torch.long, device=DEV)
        self.stop = torch.zeros((), dtype=torch.bool, pin_memory=True)
        self.stop_here = torch.cuda.Event()
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            lm.advance(*self.state)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            *after, self.parent = lm.advance(*self.state)
            for kept, new in zip(self.state, after):
                kept.copy_(new)

    def decode(self, prompt):
        for kept, new in zip(self.state, fresh(prompt)):
            kept.copy_(new)
        _, token, score, finished = self.state
        trail = []
        for t in range(STEPS):
            if t and self.stop_here.query() and bool(self.stop):
                break
            self.graph.replay()
            row = self.history[t]
            row[0].copy_(self.parent)
            row[1].copy_(token)
            trail.append(Hop(*row.unbind(0)))
            self.stop.copy_(finished.all(), non_blocking=True)
            self.stop_here.record()
        return walk_back(trail, score)


def eager(lm, prompt):
    state, trail = fresh(prompt), []
    for _ in range(STEPS):
        *state, parent = lm.advance(*state)
        trail.append(Hop(parent, state[1]))
    return walk_back(trail, state[2])


@torch.no_grad()
def main():
    lm = Lm()
    prompts = (torch.arange(9) % (VOCAB - 1) + 1).view(3, BATCH).to(DEV)
    search = BeamSearch(lm)
    found = torch.stack([search.decode(p) for p in prompts])
    want = torch.stack([eager(lm, p) for p in prompts])
    print("values right" if torch.equal(found, want) else "values wrong")


if __name__ == "__main__":
    main()
