"""Speculative decoding with rejection sampling, all on the device: accept mask, recovered token, bonus token."""
import torch
import torch.nn as nn

import graphsafe


class Small(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.mix = nn.Linear(d, d)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        return self.head(torch.tanh(self.mix(self.emb(ids)).cumsum(1)))


def sample(probs):
    return (probs / torch.empty_like(probs).exponential_(1)).argmax(-1)


class Speculator:
    def __init__(self, device, vocab=32, k=4):
        self.k = k
        self.draft = Small(vocab, 8).to(device).requires_grad_(False)
        self.target = Small(vocab, 24).to(device).requires_grad_(False)
        self.last = torch.zeros(2, 1, dtype=torch.long, device=device)

    @torch.no_grad()
    def step(self):
        ids, dprobs = self.last, []
        for _ in range(self.k):
            p = self.draft(ids)[:, -1].softmax(-1)
            ids = torch.cat([ids, sample(p)[:, None]], 1)
            dprobs.append(p)
        q = torch.stack(dprobs, 1)
        p = self.target(ids).softmax(-1)
        drafted = ids[:, 1:]
        pt = p[:, :-1].gather(-1, drafted[..., None]).squeeze(-1)
        qt = q.gather(-1, drafted[..., None]).squeeze(-1)
        u = torch.rand_like(pt)
        accept = (u < (pt / qt).clamp(max=1.0)).int().cumprod(1).bool()
        n = accept.sum(1, keepdim=True)
        residual = (p[:, :-1] - q).clamp(min=0)
        residual = residual / residual.sum(-1, keepdim=True).clamp(min=1e-9)
        options = torch.cat([residual, p[:, -1:]], 1)
        pick = options.gather(1, n[..., None].expand(-1, -1, options.shape[-1])).squeeze(1)
        final = sample(pick)[:, None]
        tokens = torch.cat([torch.where(accept, drafted, -1), torch.full_like(final, -1)], 1)
        tokens.scatter_(1, n, final)
        self.last.copy_(final)
        return tokens, n


def build(device):
    s = Speculator(device)
    return graphsafe.Step(s.step, refresh=lambda a, kw, k: s.last.copy_(torch.randint(0, 32, (2, 1))))
