"""Token sampling: repetition penalty, temperature, top-k, top-p, then the exponential trick of gpt-fast."""
import torch

import graphsafe


class Sampler:
    def __init__(self, batch, vocab, device, top_k=20):
        self.top_k = top_k
        self.temperature = torch.full((batch, 1), 0.8, device=device)
        self.top_p = torch.full((batch, 1), 0.9, device=device)
        self.penalty = torch.full((batch, 1), 1.1, device=device)
        self.counts = torch.zeros(batch, vocab, dtype=torch.int32, device=device)
        self.ones = torch.ones(batch, 1, dtype=torch.int32, device=device)

    def filter(self, logits):
        seen = self.counts > 0
        logits = torch.where(seen & (logits > 0), logits / self.penalty, logits)
        logits = torch.where(seen & (logits < 0), logits * self.penalty, logits)
        logits = logits / self.temperature
        kth = logits.topk(self.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
        ordered, index = logits.sort(dim=-1, descending=True)
        probs = ordered.softmax(-1)
        drop = probs.cumsum(-1) - probs > self.top_p
        ordered = ordered.masked_fill(drop, float("-inf"))
        return torch.empty_like(logits).scatter_(1, index, ordered)

    def __call__(self, logits):
        probs = self.filter(logits).softmax(-1)
        noise = torch.empty_like(probs).exponential_(1)
        token = torch.argmax(probs / noise, dim=-1, keepdim=True)
        self.counts.scatter_add_(1, token, self.ones)
        return token, probs


def build(device, batch=3, vocab=64):
    torch.manual_seed(5)
    sampler = Sampler(batch, vocab, device)
    logits = torch.randn(batch, vocab, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(3 * torch.randn(batch, vocab))
        sampler.temperature.copy_(0.5 + torch.rand(batch, 1))
        sampler.top_p.copy_(0.5 + 0.5 * torch.rand(batch, 1))

    return graphsafe.Step(sampler, (logits,), refresh=refresh, reset=sampler.counts.zero_)
