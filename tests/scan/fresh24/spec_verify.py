"""Speculative decoding: accept or reject drafted tokens without leaving the device."""
import torch
import torch.nn.functional as F


class RejectionSampler:
    """Accepts a prefix of the draft, then samples from the residual distribution."""

    def __init__(self, batch, width, vocab, device):
        self.width = width
        self.columns = torch.arange(width + 1, device=device).expand(batch, -1)
        self.pad = torch.full((batch, width + 1), -1, dtype=torch.long, device=device)

    def __call__(self, draft_ids, draft_probs, target_probs):
        p = target_probs[:, :-1].gather(-1, draft_ids.unsqueeze(-1)).squeeze(-1)
        q = draft_probs.gather(-1, draft_ids.unsqueeze(-1)).squeeze(-1)
        coin = torch.rand(p.shape, device=p.device)
        ok = coin * q <= p
        accepted = ok.long().cumprod(-1).sum(-1)

        padded = F.pad(draft_probs, (0, 0, 0, 1))
        at = accepted.view(-1, 1, 1).expand(-1, 1, target_probs.shape[-1])
        residual = (target_probs.gather(1, at) - padded.gather(1, at)).squeeze(1).clamp_min(0)
        fallback = target_probs.gather(1, at).squeeze(1)
        residual = torch.where(residual.sum(-1, keepdim=True) > 1e-6, residual, fallback)
        noise = torch.empty_like(residual).exponential_()
        bonus = (residual / noise).argmax(-1)

        tokens = F.pad(draft_ids, (0, 1))
        tokens = torch.where(self.columns == accepted[:, None], bonus[:, None], tokens)
        tokens = torch.where(self.columns <= accepted[:, None], tokens, self.pad)
        return tokens, accepted, bonus


class SequenceBook:
    """Lengths and token history of the running sequences, all of fixed size."""

    def __init__(self, batch, capacity, device):
        self.history = torch.zeros(batch, capacity, dtype=torch.long, device=device)
        self.lengths = torch.ones(batch, dtype=torch.long, device=device)
        self.rows = torch.arange(batch, device=device)[:, None]

    def append(self, tokens, accepted):
        capacity = self.history.shape[1]
        cols = torch.arange(tokens.shape[1], device=tokens.device)
        where = torch.remainder(self.lengths[:, None] + cols, capacity)
        old = self.history.gather(1, where)
        self.history.scatter_(1, where, torch.where(tokens >= 0, tokens, old))
        self.lengths.add_(accepted + 1)
        self.lengths.remainder_(capacity)


class TinyTarget:
    def __init__(self, vocab, dim, device):
        self.embed = torch.randn(vocab, dim, device=device)
        self.mix = torch.randn(dim, dim, device=device) / dim ** 0.5

    def probs(self, ids, temperature):
        h = self.embed[ids]
        h = torch.tanh(h.cumsum(1) @ self.mix)
        return (h @ self.embed.T / temperature[:, None, None]).softmax(-1)


class Verifier:
    def __init__(self, device, batch=4, width=3, vocab=64, dim=16):
        torch.manual_seed(0)
        self.target = TinyTarget(vocab, dim, device)
        self.sampler = RejectionSampler(batch, width, vocab, device)
        self.book = SequenceBook(batch, 128, device)
        self.last = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.stats = torch.zeros(width + 1, device=device)

    @torch.no_grad()
    def step(self, draft_ids, draft_probs, temperature):
        ids = torch.cat([self.last, draft_ids], 1)
        target_probs = self.target.probs(ids, temperature)
        tokens, accepted, bonus = self.sampler(draft_ids, draft_probs, target_probs)
        self.book.append(tokens, accepted)
        self.stats.scatter_add_(0, accepted, torch.ones_like(accepted, dtype=self.stats.dtype))
        self.last.copy_(bonus[:, None])
        return tokens, accepted


def build(device, batch=4, width=3):
    verifier = Verifier(device, batch, width)
    draft_ids = torch.randint(0, 64, (batch, width), device=device)
    draft_probs = torch.rand(batch, width, 64, device=device).softmax(-1)
    temperature = torch.rand(batch, device=device) + 0.5
    return verifier.step, (draft_ids, draft_probs, temperature)
