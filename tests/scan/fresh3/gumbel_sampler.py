"""Top-p sampling on the device: fixed shapes, the device's default generator."""
import torch
from torch import nn


class PenaltyTracker:
    def __init__(self, batch, vocab, device):
        self.counts = torch.zeros(batch, vocab, device=device)
        self.ones = torch.ones(batch, 1, device=device)

    def apply(self, logits, strength):
        return logits - strength * self.counts

    def update(self, token):
        self.counts.scatter_add_(1, token, self.ones)

    def reset_row(self, row):
        self.counts[row] = 0.0

    def most_common(self):
        return self.counts.sum(0).argmax().item()


class SamplerOptions:
    def __init__(self, top_p=0.9, temperature=0.8, banned=()):
        if not 0 < top_p <= 1:
            raise ValueError("top_p")
        self.top_p = top_p
        self.temperature = max(temperature, 1e-4)
        self.banned = list(banned)


class Sampler(nn.Module):
    def __init__(self, batch, vocab, device, options):
        super().__init__()
        self.options = options
        self.tracker = PenaltyTracker(batch, vocab, device)
        self.noise = torch.empty(batch, vocab, device=device)
        banned = torch.zeros(vocab, dtype=torch.bool)
        banned[options.banned] = True
        self.register_buffer("banned", banned.to(device))

    def truncate(self, probs):
        ranked, order = probs.sort(dim=-1, descending=True)
        outside = ranked.cumsum(-1) - ranked > self.options.top_p
        ranked = ranked.masked_fill(outside, 0.0)
        return ranked / ranked.sum(-1, keepdim=True), order

    def draw(self, probs):
        return (probs / self.noise.exponential_()).argmax(-1, keepdim=True)

    def forward(self, logits):
        logits = self.tracker.apply(logits, 0.1)
        if self.options.temperature != 1.0:
            logits = logits / self.options.temperature
        if len(self.options.banned) > 0:
            logits = logits.masked_fill(self.banned, -1e9)
        probs, order = self.truncate(logits.softmax(-1))
        picked = order.gather(1, self.draw(probs))
        self.tracker.update(picked)
        return picked.squeeze(1)


class StopChecker:
    def __init__(self, stop_ids, device):
        self.stop_ids = torch.tensor(stop_ids, device=device)

    def ended(self, token):
        return (token.unsqueeze(1) == self.stop_ids).any(1)


class Postprocess:
    def __init__(self, sampler, stops, embedding):
        self.sampler = sampler
        self.stops = stops
        self.embedding = embedding

    def __call__(self, logits):
        token = self.sampler(logits)
        ended = self.stops.ended(token)
        return self.embedding(token).masked_fill(ended.unsqueeze(1), 0.0), token, ended


def build(device):
    torch.manual_seed(11)
    batch, vocab = 4, 24
    sampler = Sampler(batch, vocab, device, SamplerOptions(banned=[3, 5]))
    embedding = nn.Embedding(vocab, 8, device=device).requires_grad_(False)
    return Postprocess(sampler, StopChecker([0, 7], device), embedding), (torch.randn(batch, vocab, device=device),)
