"""Speculative decoding: rejection sampling of the drafts on the device, with the accepted length as a tensor."""
import torch

import graphsafe


class Verifier:
    def __init__(self, batch, draft, vocab, device, ctx=64):
        self.batch, self.draft = batch, draft
        self.history = torch.zeros(batch, ctx, dtype=torch.long, device=device)
        self.length = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.steps = torch.arange(draft + 1, device=device)
        self.ctx = ctx

    def __call__(self, tokens, q, p):
        """tokens [B, K]; q [B, K, V] draft probabilities; p [B, K + 1, V] target probabilities."""
        pick = tokens.unsqueeze(-1)
        ratio = p[:, :-1].gather(-1, pick).squeeze(-1) / q.gather(-1, pick).squeeze(-1).clamp_min(1e-9)
        accept = (torch.rand_like(ratio) < ratio).long()
        run = accept.cumprod(1)
        n = run.sum(1, keepdim=True)
        residual = (p[:, :-1] - q).clamp_min(0)
        residual = torch.cat([residual, p[:, -1:]], 1)
        residual = residual / residual.sum(-1, keepdim=True).clamp_min(1e-9)
        at = n.unsqueeze(-1).expand(-1, 1, p.shape[-1])
        final = residual.gather(1, at).squeeze(1)
        noise = torch.empty_like(final).exponential_()
        bonus = (final / noise).argmax(-1, keepdim=True)
        padded = torch.cat([tokens, bonus], 1)
        out = torch.where(self.steps < n, padded, torch.where(self.steps == n, bonus, -1))
        slots = (self.length + self.steps) % self.ctx
        old = self.history.gather(1, slots)
        self.history.scatter_(1, slots, torch.where(out >= 0, out, old))
        self.length.add_(n + 1)
        return out, n, final


def build(device, batch=3, draft=4, vocab=20):
    torch.manual_seed(13)
    v = Verifier(batch, draft, vocab, device)
    tokens = torch.randint(vocab, (batch, draft), device=device)
    q = torch.randn(batch, draft, vocab).softmax(-1).to(device)
    p = torch.randn(batch, draft + 1, vocab).softmax(-1).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(vocab, (batch, draft)))
        args[1].copy_(torch.randn(batch, draft, vocab).softmax(-1))
        args[2].copy_(torch.randn(batch, draft + 1, vocab).softmax(-1))

    return graphsafe.Step(v, (tokens, q, p), refresh=refresh)
