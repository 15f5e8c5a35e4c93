"""Rejection sampler of speculative decoding: drafts found by n-grams are one-hot rows of the same probabilities."""
import torch

import graphsafe


class RejectionSampler:
    def __init__(self, device, rows=4, draft=3, vocab=10):
        self.shape = (rows, draft, vocab)
        self.draft_probs = torch.full(self.shape, 1.0 / vocab, device=device)
        self.places = torch.arange(draft, device=device)
        self.kind = "model"
        self.accepted = torch.zeros(rows, dtype=torch.long, device=device)

    def propose(self, k):
        rows, draft, vocab = self.shape
        drafted = torch.randint(0, vocab, (rows, draft))
        if k % 6 == 5:
            self.kind = "ngram"
            self.draft_probs.copy_(torch.zeros(self.shape).scatter_(-1, drafted.unsqueeze(-1), 1.0))
        else:
            self.kind = "model"
            self.draft_probs.copy_(torch.softmax(torch.randn(self.shape), -1))
        return drafted

    def forward(self, target_logits, drafted, uniform):
        target = torch.softmax(target_logits, -1)
        index = drafted.unsqueeze(-1)
        chosen = target.gather(-1, index).squeeze(-1)
        accept = uniform < chosen / self.draft_probs.gather(-1, index).squeeze(-1)
        lengths = accept.long().cumprod(-1).sum(-1)
        kept = torch.where(self.places < lengths.unsqueeze(1), drafted, torch.full_like(drafted, -1))
        residual = (target - self.draft_probs).clamp_min(0)
        at = lengths.clamp(max=len(self.places) - 1).view(-1, 1, 1).expand(-1, 1, residual.shape[-1])
        recovered = residual.gather(1, at).squeeze(1).argmax(-1)
        self.accepted.add_(lengths)
        return kept, recovered, self.accepted + 0


def build(device):
    sampler = RejectionSampler(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 3, 10) * 2)
        args[1].copy_(sampler.propose(k))
        args[2].copy_(torch.rand(4, 3))

    drafted = torch.zeros(4, 3, dtype=torch.long, device=device)
    args = (torch.randn(4, 3, 10, device=device), drafted, torch.rand(4, 3, device=device))
    return graphsafe.Step(sampler.forward, args, refresh=refresh)
