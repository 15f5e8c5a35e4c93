"""vLLM-like sampler: per-row temperature, top-k, top-p and penalties in device tensors."""
import torch
import torch.nn as nn

import graphsafe


def apply_top_k_top_p(logits, k, p):
    sorted_logits, order = logits.sort(dim=-1, descending=False)
    kth = (logits.size(-1) - k).clamp(min=0).unsqueeze(1)
    sorted_logits = sorted_logits.masked_fill(sorted_logits < sorted_logits.gather(1, kth), -float("inf"))
    cum = sorted_logits.softmax(-1).cumsum(-1)
    drop = cum <= 1 - p.unsqueeze(1)
    drop[:, -1] = False
    sorted_logits = sorted_logits.masked_fill(drop, -float("inf"))
    return torch.empty_like(sorted_logits).scatter_(-1, order, sorted_logits)


class Sampler:
    def __init__(self, device, batch, vocab):
        self.temp = torch.ones(batch, device=device)
        self.k = torch.full((batch,), vocab, dtype=torch.long, device=device)
        self.p = torch.ones(batch, device=device)
        self.counts = torch.zeros(batch, vocab, device=device)
        self.freq = torch.zeros(batch, device=device)

    def update(self, i):
        b = self.temp.shape[0]
        self.temp.copy_(torch.rand(b) + 0.5)
        self.k.copy_(torch.randint(5, 40, (b,)))
        self.p.copy_(torch.rand(b) * 0.3 + 0.7)
        self.freq.copy_(torch.rand(b))

    def __call__(self, logits):
        logits = logits - self.freq[:, None] * self.counts
        logits = logits / self.temp[:, None]
        logits = apply_top_k_top_p(logits, self.k, self.p)
        probs = logits.softmax(-1, dtype=torch.float32)
        q = torch.empty_like(probs)
        q.exponential_()
        tokens = probs.div(q).argmax(-1)
        self.counts.scatter_add_(1, tokens[:, None], torch.ones_like(tokens[:, None], dtype=self.counts.dtype))
        return tokens, probs


def build(device, batch=4, vocab=50):
    sampler = Sampler(device, batch, vocab)
    head = nn.Linear(16, vocab).to(device).requires_grad_(False)
    h = torch.randn(batch, 16, device=device)

    def step(h):
        return sampler(head(h))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 16))
        sampler.update(k)

    return graphsafe.Step(step, (h,), refresh=refresh, reset=sampler.counts.zero_)
