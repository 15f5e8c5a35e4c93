"""One round of speculative decoding: the draft proposes gamma tokens, the target checks them in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from models import Decoder


@dataclass
class Window:
    """What adapts the number of proposals to how many were accepted lately."""

    gamma: int = 4
    recent: list[int] = field(default_factory=list)

    def update(self, accepted: int) -> None:
        self.recent = [*self.recent[-5:], accepted]
        mean = sum(self.recent) / len(self.recent)
        self.gamma = max(2, min(6, round(mean) + 1))


class Verifier:
    def __init__(self, target: Decoder):
        self.target = target
        self.tokens = torch.zeros(8, dtype=torch.long, device="cuda")
        self.graphs = {}

    def capture(self, count, start):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            choice = self.target(self.tokens[:count], start).argmax(-1)
        return graph, choice

    def __call__(self, tokens, start):
        count = tokens.shape[0]
        key = (count, start)
        self.tokens[:count].copy_(tokens)
        if key not in self.graphs:
            self.graphs[key] = self.capture(count, start)
        graph, choice = self.graphs[key]
        graph.replay()
        return choice


class Speculator:
    def __init__(self, draft: Decoder, target: Decoder):
        self.draft = draft
        self.verifier = Verifier(target)
        self.window = Window()

    def propose(self, token, start):
        tokens = [token]
        for offset in range(self.window.gamma):
            logits = self.draft(tokens[-1].view(1), start + offset)
            tokens.append(logits[-1].argmax())
        return torch.stack(tokens)

    def round(self, token, start):
        tokens = self.propose(token, start)
        choice = self.verifier(tokens, start)
        agreed = (tokens[1:] == choice[:-1]).cumprod(0)
        accepted = int(agreed.sum())
        self.window.update(accepted)
        return choice[: accepted + 1].clone()
