"""Accept a prefix of a draft and resample behind it, for all rows at once and at full width."""
from __future__ import annotations

import functools
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class AcceptConfig:
    draft: int = 4
    vocab: int = 32
    eos: int = 2

    @functools.cached_property
    def width(self) -> int:
        return self.draft + 1


class Ring:
    """Keeps the last results on the device; `put` writes to the next place."""

    def __init__(self, places: int, batch: int, width: int, device: torch.device):
        self.rows = torch.zeros(places, batch, width, dtype=torch.long, device=device)
        self.place = torch.zeros(1, dtype=torch.long, device=device)

    def put(self, tokens: torch.Tensor) -> torch.Tensor:
        last = self.rows.index_select(0, self.place).squeeze(0)
        self.place.add_(1).remainder_(self.rows.shape[0])
        self.rows.index_copy_(0, self.place, tokens.unsqueeze(0))
        return last


class Acceptor:
    def __init__(self, cfg: AcceptConfig, batch: int, device: torch.device):
        self.cfg = cfg
        self.column = torch.arange(cfg.width, device=device)
        self.ring = Ring(2, batch, cfg.width, device)
        self.stopped = torch.zeros(batch, dtype=torch.bool, device=device)

    def accepted(self, draft, p_draft, p_target) -> torch.Tensor:
        pick = draft.unsqueeze(-1)
        ratio = p_target[:, :-1].gather(-1, pick) / p_draft.gather(-1, pick).clamp_min(1e-9)
        coin = torch.rand_like(ratio)
        return (coin < ratio).squeeze(-1).long().cumprod(-1).sum(-1)

    def bonus(self, p_target: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        index = length.view(-1, 1, 1).expand(-1, 1, p_target.shape[-1])
        probs = p_target.gather(1, index).squeeze(1)
        return (probs / torch.empty_like(probs).exponential_()).argmax(-1)

    @torch.no_grad()
    def __call__(self, draft, draft_logits, target_logits):
        p_draft, p_target = draft_logits.softmax(-1), target_logits.softmax(-1)
        length = self.accepted(draft, p_draft, p_target).unsqueeze(1)
        extra = self.bonus(p_target, length).unsqueeze(1)
        padded = torch.nn.functional.pad(draft, (0, 1), value=self.cfg.eos)
        tokens = padded.masked_fill(self.column >= length, self.cfg.eos)
        tokens = torch.where(self.column == length, extra, tokens)
        self.stopped |= ((tokens == self.cfg.eos) & (self.column <= length)).any(1)
        repeated = (tokens == self.ring.put(tokens)).all(-1)
        return tokens, length.squeeze(1), repeated


def build(device):
    cfg = AcceptConfig()
    batch = 3
    draft = torch.randint(0, cfg.vocab, (batch, cfg.draft), device=device)
    draft_logits = torch.randn(batch, cfg.draft, cfg.vocab, device=device)
    target_logits = torch.randn(batch, cfg.width, cfg.vocab, device=device)
    return Acceptor(cfg, batch, device), (draft, draft_logits, target_logits)
