"""Speculative sampling, lossless form: accept by ratios, the first rejected token from the residual, all on the device."""
import torch
import torch.nn as nn

import graphsafe

BATCH, DRAFT, VOCABULARY = 4, 5, 64


class Verifier:
    def __init__(self, device):
        self.target = nn.Linear(32, VOCABULARY).to(device).requires_grad_(False)
        self.draft = nn.Linear(32, VOCABULARY).to(device).requires_grad_(False)
        self.draft.weight.copy_(self.target.weight + 0.05 * torch.randn_like(self.target.weight))
        self.hidden = torch.zeros(BATCH, DRAFT + 1, 32, device=device)
        self.proposed = torch.zeros(BATCH, DRAFT, dtype=torch.long, device=device)
        self.lengths = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.history = torch.zeros(BATCH, 128, dtype=torch.long, device=device)

    def prepare(self, args, kwargs, k):
        self.hidden.copy_(torch.randn(self.hidden.shape))

    def step(self):
        p, q = self.target(self.hidden).softmax(-1), self.draft(self.hidden[:, :DRAFT]).softmax(-1)
        self.proposed.copy_(torch.multinomial(q.flatten(0, 1), 1).view(BATCH, DRAFT))
        at = self.proposed[..., None]
        ratio = p[:, :DRAFT].gather(-1, at) / q.gather(-1, at)
        ok = torch.rand(BATCH, DRAFT, device=p.device) < ratio.squeeze(-1)
        accepted = ok.long().cumprod(-1).sum(-1)
        padded = torch.cat([q, torch.zeros_like(q[:, :1])], 1)
        residual = (p - padded).clamp(min=0).gather(1, accepted[:, None, None].expand(-1, 1, VOCABULARY)).squeeze(1)
        bonus = torch.multinomial(residual + 1e-9, 1)
        tokens = torch.cat([self.proposed, bonus], 1).scatter(1, accepted[:, None], bonus)
        steps = torch.arange(DRAFT + 1, device=p.device)
        where = (self.lengths[:, None] + steps) % 128
        keep = steps <= accepted[:, None]
        old = self.history.gather(1, where)
        self.history.scatter_(1, where, torch.where(keep, tokens, old))
        self.lengths.add_(accepted + 1)
        return tokens.masked_fill(~keep, -1), accepted, self.history


def build(device):
    verifier = Verifier(device)
    return graphsafe.Step(verifier.step, (), {}, refresh=verifier.prepare)
