"""Beam search from the command line: one captured step, replayed until every beam has ended."""
from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import nn

EOS = 2


class Scorer(nn.Module):
    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, vocab)

    def forward(self, history, step):
        seen = torch.arange(history.shape[-1], device=history.device) <= step
        x = (self.embed(history) * seen.unsqueeze(-1)).sum(-2) / (step + 1)
        return self.head(x + self.mix(x)).log_softmax(-1)


class BeamState:
    def __init__(self, batch: int, beams: int, length: int, device):
        self.history = torch.full((batch, beams, length), EOS, dtype=torch.long, device=device)
        self.total = torch.zeros(batch, beams, device=device)
        self.ended = torch.zeros(batch, beams, dtype=torch.bool, device=device)
        self.step = torch.zeros((), dtype=torch.long, device=device)
        self.emitted = 1

    @property
    def penalty(self) -> float:
        return ((5 + self.emitted) / 6) ** 0.6


class BeamSearch:
    def __init__(self, scorer: Scorer, state: BeamState):
        self.scorer, self.state = scorer, state
        self.graph = None
        self.parents = self.tokens = None

    def _advance(self):
        s = self.state
        batch, beams = s.total.shape
        logp = self.scorer(s.history, s.step)
        logp = logp.masked_fill(s.ended.unsqueeze(-1), 0.0)
        total = (s.total.unsqueeze(-1) + logp).flatten(1)
        best, index = (total / s.penalty).topk(beams, dim=-1)
        parents, tokens = index // logp.shape[-1], index % logp.shape[-1]
        s.total.copy_(total.gather(1, index))
        s.ended.copy_(s.ended.gather(1, parents) | (tokens == EOS))
        s.step.add_(1)
        return parents, tokens

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.parents, self.tokens = self._advance()

    def reset(self, first: torch.Tensor):
        s = self.state
        s.history.fill_(EOS)
        s.history[:, :, 0].copy_(first.unsqueeze(1))
        s.total.fill_(-1e9)
        s.total[:, 0].zero_()
        s.ended.zero_()
        s.step.zero_()
        s.emitted = 1

    def run(self, first: torch.Tensor, limit: int):
        s = self.state
        self.reset(first)
        for position in range(1, limit):
            self.graph.replay()
            order = self.parents.unsqueeze(-1).expand_as(s.history)
            s.history = s.history.gather(1, order)
            s.history[:, :, position].copy_(self.tokens)
            s.emitted += 1
            if s.ended.all():
                break
        return s.history[:, 0]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--vocab", type=int, default=8000)
    args = parser.parse_args(argv)
    device = torch.device("cuda")
    scorer = Scorer(args.vocab, 256).to(device).eval()
    with torch.no_grad():
        search = BeamSearch(scorer, BeamState(args.batch, args.beams, args.length, device))
        search.capture()
        first = torch.randint(3, args.vocab, (args.batch,), device=device)
        print(F.pad(search.run(first, args.length), (0, 1), value=EOS).tolist())


if __name__ == "__main__":
    main()
