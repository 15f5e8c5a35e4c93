"""Rejection sampler of speculative decoding: drafts of a model come with probabilities, drafts found by n-grams without."""
import torch

import graphsafe


class RejectionSampler:
    def __init__(self, device, rows=4, draft=3, vocab=10):
        self.device, self.shape = device, (rows, draft, vocab)
        self.probs_buffer = torch.full(self.shape, 1.0 / vocab, device=device)
        self.draft_probs = self.probs_buffer

    def propose(self, k):
        """What the proposer did for this batch; returns the drafted tokens."""
        rows, draft, vocab = self.shape
        drafted = torch.randint(0, vocab, (rows, draft))
        if k >= 95 and k % 6 == 0:
            self.draft_probs = None
        else:
            probs = torch.softmax(torch.randn(self.shape), -1)
            self.probs_buffer.copy_(probs)
            self.draft_probs = self.probs_buffer
        return drafted

    def forward(self, target_logits, drafted, uniform):
        target = torch.softmax(target_logits, -1)
        chosen = target.gather(-1, drafted.unsqueeze(-1)).squeeze(-1)
        if self.draft_probs is None:
            accept = uniform < chosen
        else:
            proposed = self.draft_probs.gather(-1, drafted.unsqueeze(-1)).squeeze(-1)
            accept = uniform < chosen / proposed
        lengths = accept.long().cumprod(-1).sum(-1)
        places = torch.arange(accept.shape[1], device=drafted.device)
        kept = torch.where(places < lengths.unsqueeze(1), drafted, torch.full_like(drafted, -1))
        return kept, lengths, chosen


def build(device):
    sampler = RejectionSampler(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 3, 10) * 2)
        args[1].copy_(sampler.propose(k))
        args[2].copy_(torch.rand(4, 3))

    drafted = torch.zeros(4, 3, dtype=torch.long, device=device)
    args = (torch.randn(4, 3, 10, device=device), drafted, torch.rand(4, 3, device=device))
    return graphsafe.Step(sampler.forward, args, refresh=refresh)
