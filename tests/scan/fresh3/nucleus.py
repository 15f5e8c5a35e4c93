"""Top-p sampling with repetition penalty, the way a small engine does it after each forward."""
import torch
from torch import nn


class PenaltyTracker:
    def __init__(self, batch, vocab, device):
        self.counts = torch.zeros(batch, vocab, device=device)
        self.ones = torch.ones(batch, 1, device=device)

    def apply(self, logits, strength):
        return logits - strength * self.counts

    def update(self, token):
        self.counts.scatter_add_(1, token[:, None], self.ones)


class Sampler(nn.Module):
    def __init__(self, batch, vocab, device, top_p=0.9, temperature=0.8, seed=11):
        super().__init__()
        self.tracker = PenaltyTracker(batch, vocab, device)
        self.top_p = top_p
        self.temperature = temperature
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(seed)
        self.penalty = 0.1

    def _truncate(self, probs):
        ranked, order = probs.sort(dim=-1, descending=True)
        outside = ranked.cumsum(-1) - ranked > self.top_p
        if outside.any():
            ranked = ranked.masked_fill(outside, 0.0)
        return ranked / ranked.sum(-1, keepdim=True), order

    def _draw(self, probs):
        noise = torch.empty_like(probs).exponential_(generator=self.generator)
        return (probs / noise).argmax(-1, keepdim=True)

    def forward(self, logits):
        logits = self.tracker.apply(logits, self.penalty) / self.temperature
        probs, order = self._truncate(logits.softmax(-1))
        picked = order.gather(1, self._draw(probs)).squeeze(1)
        self.tracker.update(picked)
        return picked


class StopChecker:
    def __init__(self, stop_ids, device):
        self.stop_ids = torch.tensor(stop_ids, device=device)

    def finished_rows(self, token):
        hits = torch.isin(token, self.stop_ids)
        return hits.nonzero().flatten()


class Postprocess:
    """Everything that happens between the logits of one step and the embeddings of the next."""

    def __init__(self, sampler, stops, embedding):
        self.sampler = sampler
        self.stops = stops
        self.embedding = embedding

    def __call__(self, logits):
        token = self.sampler(logits)
        ended = self.stops.finished_rows(token)
        hidden = self.embedding(token)
        return hidden.index_fill(0, ended, 0.0), token


def build(device):
    batch, vocab = 4, 24
    sampler = Sampler(batch, vocab, device)
    stops = StopChecker([0, 7], device)
    embedding = nn.Embedding(vocab, 8, device=device).requires_grad_(False)
    return Postprocess(sampler, stops, embedding), (torch.randn(batch, vocab, device=device),)
