"""Speculative decoding: draft a few tokens with a small head, verify them with a large one."""
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.SiLU()) for _ in range(depth))
        self.lm = nn.Linear(dim, vocab)

    def forward(self, token):
        x = self.embed(token)
        for block in self.blocks:
            x = x + block(x)
        return self.lm(x)


class Drafter:
    def __init__(self, head, length):
        self.head = head
        self.length = length

    def propose(self, token):
        tokens = []
        for _ in range(self.length):
            token = self.head(token).argmax(-1)
            tokens.append(token)
        return torch.stack(tokens)


class Verifier:
    def __init__(self, head, slots, device):
        self.head = head
        self.history = torch.zeros(slots, dtype=torch.long, device=device)
        self.length = torch.zeros((), dtype=torch.long, device=device)
        self.rounds = torch.zeros(2, device=device)

    def accept(self, context, draft):
        shifted = torch.cat([context, draft[:-1]])
        target = self.head(shifted).argmax(-1)
        agreed = (target == draft).cumprod(0).sum()
        kept = draft[:agreed]
        return target, agreed, kept

    def commit(self, kept, agreed):
        start = self.length % (len(self.history) // 2)
        self.history[start : start + kept.shape[0]] = kept
        self.length.add_(agreed)
        self.rounds[0] = len(self.history)

    def refine(self, logits):
        peak = logits.softmax(-1).max()
        while peak < 0.2:
            logits = logits * 1.5
            peak = logits.softmax(-1).max()
        return logits


class Speculator:
    def __init__(self, device, vocab=32, dim=16, length=4):
        self.drafter = Drafter(Head(vocab, dim, 1).to(device).requires_grad_(False), length)
        self.verifier = Verifier(Head(vocab, dim, 3).to(device).requires_grad_(False), 64, device)

    def round(self, token):
        draft = self.drafter.propose(token[0])
        target, agreed, kept = self.verifier.accept(token, draft)
        self.verifier.commit(kept, agreed)
        final = target.index_select(0, agreed.clamp(max=len(target) - 1).view(1))
        return self.verifier.refine(self.verifier.head(final)), agreed


def build(device):
    spec = Speculator(device)
    return spec.round, (torch.randint(0, 32, (1,), device=device),)
