"""Verify drafted tokens against a target model."""
import torch
import torch.nn.functional as F
from torch import nn


class Embedder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.table = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def logits(self, ids):
        return self.out(torch.tanh(self.mix(self.table(ids))))


class Acceptance:
    """How many drafted tokens agree with the target's choice."""

    def __init__(self, width):
        self.width = width

    def longest_prefix(self, drafted, chosen):
        agree = (drafted == chosen).long()
        return agree.cumprod(-1).sum(-1)


class History:
    def __init__(self, rows, length, device):
        self.tokens = torch.zeros(rows, length, dtype=torch.long, device=device)

    def write(self, tokens, upto):
        self.tokens[:, :upto] = tokens[:, :upto]


class Verifier:
    def __init__(self, model, rows, width, device):
        self.model = model
        self.rule = Acceptance(width)
        self.history = History(rows, width, device)
        self.bonus = torch.zeros(rows, dtype=torch.long, device=device)

    @torch.no_grad()
    def step(self, drafted):
        logits = self.model.logits(drafted)
        chosen = logits.argmax(-1)
        accepted = self.rule.longest_prefix(drafted, chosen)
        self.history.write(chosen, accepted.min())
        if int(accepted.sum()) == accepted.numel() * self.rule.width:
            self.bonus.copy_(chosen[:, -1])
        return F.log_softmax(logits, -1).amax(-1), self.bonus


def build(device):
    model = Embedder(32, 16).to(device)
    verifier = Verifier(model, 4, 5, device)
    return verifier.step, (torch.randint(0, 32, (4, 5), device=device),)
