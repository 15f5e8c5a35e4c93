"""Verification step of speculative decoding: scores draft tokens against the target head."""
import torch
from torch import nn


class TargetHead(nn.Module):
    def __init__(self, vocab=97, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.body = nn.Linear(width, width)
        self.out = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        return self.out(torch.relu(self.body(self.embed(ids))))


class Calibrator:
    """Removes the bias that quantised heads put on frequent tokens."""

    def __init__(self, strength=0.5):
        self.strength = strength
        self.offset = None

    def apply(self, logits):
        if self.offset is None:
            self.offset = logits.mean(dim=(0, 1))
        return logits - self.strength * self.offset


class DraftVerifier:
    def __init__(self, head, calibrator, threshold=0.01):
        self.head = head
        self.calibrator = calibrator
        self.threshold = threshold

    def _prefix(self, ok):
        return ok.long().cumprod(dim=1)

    def verify(self, draft):
        logits = self.calibrator.apply(self.head(draft))
        probs = logits.softmax(dim=-1)
        nxt = draft.roll(-1, dims=1)
        p = probs.gather(-1, nxt.unsqueeze(-1)).squeeze(-1)
        ok = p >= self.threshold
        keep = self._prefix(ok)
        accepted = p[ok].sum()
        longest = keep.sum(dim=1).max().item()
        scale = 1.0 + longest / draft.shape[1]
        bonus = (probs[:, -1] * scale).argmax(dim=-1)
        return keep, accepted * scale, bonus


def build(device):
    torch.manual_seed(4)
    head = TargetHead().to(device).eval().requires_grad_(False)
    verifier = DraftVerifier(head, Calibrator())
    draft = torch.randint(0, 97, (4, 6), device=device)
    return verifier.verify, (draft,)
