"""Verify drafted tokens against a target model, all on the device."""
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
    def __init__(self, width, device):
        self.width = width
        self.at = torch.arange(width, device=device)

    def prefix_mask(self, drafted, chosen):
        agree = (drafted == chosen).long()
        return self.at < agree.cumprod(-1).sum(-1, keepdim=True)


class History:
    def __init__(self, rows, length, device):
        self.tokens = torch.zeros(rows, length, dtype=torch.long, device=device)

    def write(self, tokens, mask):
        torch.where(mask, tokens, self.tokens, out=self.tokens)


class Verifier:
    def __init__(self, model, rows, width, device):
        self.model = model
        self.rule = Acceptance(width, device)
        self.history = History(rows, width, device)
        self.bonus = torch.zeros(rows, dtype=torch.long, device=device)
        self.steps = 0

    @torch.no_grad()
    def step(self, drafted):
        self.steps += 1
        logits = self.model.logits(drafted)
        chosen = logits.argmax(-1)
        mask = self.rule.prefix_mask(drafted, chosen)
        self.history.write(chosen, mask)
        self.bonus.copy_(torch.where(mask.all(-1), chosen[:, -1], self.bonus))
        if self.rule.width > 4:
            logits = logits * 1.0
        return F.log_softmax(logits, -1).amax(-1), self.bonus


def build(device):
    model = Embedder(32, 16).to(device)
    verifier = Verifier(model, 4, 5, device)
    return verifier.step, (torch.randint(0, 32, (4, 5), device=device),)
