"""Verification half of speculative decoding, one sequence at a time."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Verdict:
    tokens: torch.Tensor
    accepted: torch.Tensor


@dataclass
class Transcript:
    tokens: torch.Tensor
    verdicts: list[Verdict] = field(default_factory=list)

    def __ior__(self, verdict: Verdict) -> "Transcript":
        self.tokens = torch.cat((self.tokens, verdict.tokens))
        return self

    def context(self, width: int) -> torch.Tensor:
        return self.tokens[-width:]


class Target(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.Linear(2 * dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, context: torch.Tensor, draft: torch.Tensor) -> torch.Tensor:
        seen = self.embed(context).mean(0, keepdim=True)
        h = self.embed(draft)
        prefix = (seen + h.cumsum(0)) / (1 + torch.arange(len(h), device=h.device)[:, None])
        return self.head(torch.tanh(self.rnn(torch.cat((prefix, h), -1))))


class Verifier:
    def __init__(self, target: Target, prompt: torch.Tensor, width: int = 8):
        self.target = target
        self.width = width
        self.transcript = Transcript(prompt)

    def compare(self, draft: torch.Tensor, logits: torch.Tensor) -> Verdict:
        wanted = logits.argmax(-1)
        agree = draft[1:] == wanted[:-1]
        if all(agree):
            return Verdict(torch.cat((draft, wanted[-1:])), agree.sum())
        accepted = agree.long().cumprod(0).sum()
        fixed = wanted.gather(0, accepted.view(1))
        return Verdict(torch.cat((draft[: accepted + 1], fixed)), accepted)

    @torch.no_grad()
    def __call__(self, draft: torch.Tensor) -> torch.Tensor:
        logits = self.target(self.transcript.context(self.width), draft)
        verdict = self.compare(draft, logits)
        self.transcript |= verdict
        return self.transcript.context(self.width)


def build(device, depth: int = 5, vocab: int = 64):
    torch.manual_seed(6)
    target = Target(vocab, 16).to(device).eval()
    prompt = torch.randint(0, vocab, (8,), device=device)
    draft = torch.randint(0, vocab, (depth,), device=device)
    return Verifier(target, prompt), (draft,)
