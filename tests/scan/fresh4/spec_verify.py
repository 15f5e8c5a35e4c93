"""Verification half of speculative decoding: accept a prefix of the draft, resample the rest."""
from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class VerifyConfig:
    draft: int = 4
    vocab: int = 32
    eos: int = 2
    seed: int = 11


class Swap:
    """Two result buffers used in turn; the last round stays readable during the next."""

    def __init__(self, batch: int, width: int, device: torch.device):
        self.slots = [torch.zeros(batch, width, dtype=torch.long, device=device) for _ in range(2)]
        self.turn = 0

    def __enter__(self) -> torch.Tensor:
        return self.slots[self.turn]

    @property
    def last(self) -> torch.Tensor:
        return self.slots[self.turn ^ 1]

    def __exit__(self, *exc) -> None:
        self.turn ^= 1


class Verifier:
    def __init__(self, cfg: VerifyConfig, batch: int, device: torch.device):
        self.cfg = cfg
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(cfg.seed)
        self.swap = Swap(batch, cfg.draft + 1, device)
        self.stopped = torch.zeros((), dtype=torch.bool, device=device)

    def accepted(self, draft, p_draft, p_target) -> torch.Tensor:
        pick = draft.unsqueeze(-1)
        ratio = p_target[:, :-1].gather(-1, pick) / p_draft.gather(-1, pick).clamp_min(1e-9)
        coin = torch.rand(draft.shape, generator=self.rng, device=draft.device)
        return (coin < ratio.squeeze(-1)).long().cumprod(-1).sum(-1)

    def bonus(self, p_target: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        index = length.view(-1, 1, 1).expand(-1, 1, p_target.shape[-1])
        probs = p_target.gather(1, index).squeeze(1)
        race = torch.empty_like(probs).exponential_()
        return (probs / race).argmax(-1)

    @torch.no_grad()
    def __call__(self, draft, draft_logits, target_logits):
        p_draft, p_target = draft_logits.softmax(-1), target_logits.softmax(-1)
        common = self.accepted(draft, p_draft, p_target).amin()
        kept = draft[:, :common]
        extra = self.bonus(p_target, common.expand(draft.shape[0]))
        with self.swap as out:
            out.fill_(self.cfg.eos)
            out[:, :kept.shape[1]] = kept
            out[:, kept.shape[1]] = extra
            if self.cfg.eos in kept:
                self.stopped.fill_(True)
            repeated = (out == self.swap.last).all(-1)
        return out, repeated


def build(device):
    cfg = VerifyConfig()
    batch = 3
    draft = torch.randint(0, cfg.vocab, (batch, cfg.draft), device=device)
    draft_logits = torch.randn(batch, cfg.draft, cfg.vocab, device=device)
    target_logits = torch.randn(batch, cfg.draft + 1, cfg.vocab, device=device)
    return Verifier(cfg, batch, device), (draft, draft_logits, target_logits)
