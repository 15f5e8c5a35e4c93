"""Guided decoding: a grammar automaton on the device restricts the tokens of every sequence."""
import random
from dataclasses import dataclass
from typing import Dict, List

import torch
from torch import nn


@dataclass
class Grammar:
    name: str
    edges: Dict[int, Dict[int, int]]
    accepting: List[int]

    def states(self):
        return 1 + max([s for s in self.edges] + [t for e in self.edges.values() for t in e.values()])


def ladder(name, vocab, states, stride):
    edges = {s: {(s * stride + j * 3) % vocab: (s + 1 + j) % states for j in range(6)} for s in range(states)}
    return Grammar(name, edges, [states - 1])


class Automaton:
    """Transition table [state, token] -> state, with -1 where a token is forbidden."""

    def __init__(self, rows, states, vocab, device):
        self.vocab, self.limit, self.device = vocab, states, device
        self.table = torch.full((states, vocab), 0, dtype=torch.long, device=device)
        self.accepting = torch.zeros(states, dtype=torch.bool, device=device)
        self.state = torch.zeros(rows, dtype=torch.long, device=device)

    def load(self, grammar):
        table = torch.full((self.limit, self.vocab), -1, dtype=torch.long)
        for s, edges in grammar.edges.items():
            for token, target in edges.items():
                table[s, token] = target
        accepting = torch.zeros(self.limit, dtype=torch.bool)
        for s in grammar.accepting:
            accepting[s] = True
        self.table = table.to(self.device)
        self.accepting.copy_(accepting)
        self.state.zero_()

    def mask(self, logits):
        return logits.masked_fill(self.table[self.state] < 0, -1e9)

    def move(self, tokens):
        self.state.copy_(self.table[self.state, tokens].clamp_min(0))


class Core(nn.Module):
    def __init__(self, vocab, dim, length):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(length, dim)
        self.gru = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens, position, hidden):
        x = self.tok(tokens) + self.pos(position)
        hidden = self.gru(x, hidden)
        return self.head(hidden), hidden


class GuidedEngine:
    def __init__(self, device, rows=4, vocab=40, dim=24, length=32, states=8):
        torch.manual_seed(9)
        self.rows, self.length, self.device = rows, length, device
        self.core = Core(vocab, dim, length).to(device).eval()
        self.fsm = Automaton(rows, states, vocab, device)
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.hidden = torch.zeros(rows, dim, device=device)
        self.finished = torch.zeros(rows, dtype=torch.bool, device=device)
        self.output = torch.zeros(rows, length, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream(device)
        self._capture()

    def _pick(self, logits):
        shift = random.random()
        ranks = torch.arange(logits.shape[-1], device=logits.device)
        jitter = torch.frac(ranks * 0.618 + shift)
        return (logits + 0.5 * jitter).argmax(-1)

    def _step(self):
        logits, hidden = self.core(self.tokens, self.position, self.hidden)
        picked = self._pick(self.fsm.mask(logits))
        picked = torch.where(self.finished, self.tokens, picked)
        self.fsm.move(picked)
        self.hidden.copy_(hidden)
        self.tokens.copy_(picked)
        self.output.scatter_(1, self.position.expand(self.rows, 1), picked[:, None])
        self.finished.logical_or_(self.fsm.accepting[self.fsm.state])

    def _capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._step()

    def begin(self, grammar, first):
        self.fsm.load(grammar)
        self.tokens.copy_(first)
        self.hidden.zero_()
        self.finished.zero_()
        self.output.zero_()

    def run(self, grammar, first, limit):
        self.begin(grammar, first)
        for i in range(min(limit, self.length)):
            self.position[0] = i
            self.graph.replay()
            if self.finished.all():
                break
        return self.output.clone()


@torch.inference_mode()
def main():
    device = torch.device("cuda")
    engine = GuidedEngine(device)
    for grammar in (ladder("json", 40, 8, 5), ladder("sql", 40, 8, 7)):
        first = torch.randint(0, 40, (4,), device=device)
        print(grammar.name, engine.run(grammar, first, 10)[:, :10].tolist())


if __name__ == "__main__":
    main()
