"""Instruction tuning: one optimizer step over several micro-batches, clipped and averaged."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class TuneConfig:
    vocab: int = 64
    width: int = 32
    heads: int = 4
    layers: int = 2
    length: int = 24
    micro: int = 4
    rows: int = 2
    peak_rate: float = 3e-3
    warmup: int = 10
    horizon: int = 200
    clip: float = 1.0
    average: float = 0.99


class Layer(nn.Module):
    def __init__(self, cfg: TuneConfig):
        super().__init__()
        self.heads = cfg.heads
        self.norm_a, self.norm_b = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width)
        self.out = nn.Linear(cfg.width, cfg.width)
        self.mlp = nn.Sequential(nn.Linear(cfg.width, 2 * cfg.width), nn.SiLU(), nn.Linear(2 * cfg.width, cfg.width))

    def forward(self, h: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, t, w = h.shape
        q, k, v = self.qkv(self.norm_a(h)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(w // self.heads)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        h = h + self.out(mixed.transpose(1, 2).reshape(b, t, w))
        return h + self.mlp(self.norm_b(h))


class Tuned(nn.Module):
    def __init__(self, cfg: TuneConfig):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.width)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.head = nn.Linear(cfg.width, cfg.vocab, bias=False)
        self.register_buffer("mask", torch.ones(cfg.length, cfg.length, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h, self.mask)
        return self.head(h)


class Tuner:
    def __init__(self, cfg: TuneConfig, device: torch.device):
        self.cfg = cfg
        self.model = Tuned(cfg).to(device)
        self.averaged = [p.detach().clone() for p in self.model.parameters()]
        self.rate = torch.zeros((), device=device)
        self.updates = torch.zeros((), device=device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.rate, weight_decay=0.01, capturable=True)

    def schedule(self) -> None:
        self.updates.add_(1)
        rise = self.updates / self.cfg.warmup
        fall = 0.5 * (1 + torch.cos(math.pi * (self.updates / self.cfg.horizon).clamp(max=1.0)))
        self.rate.copy_(self.cfg.peak_rate * torch.minimum(rise, fall))

    def micro_loss(self, ids: torch.Tensor, prompt: torch.Tensor):
        logits = self.model(ids)[:, :-1]
        nll = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(ids.shape[0], -1)
        position = torch.arange(1, ids.shape[1], device=ids.device)
        answer = (position >= prompt.unsqueeze(-1)).float()
        return (nll * answer).sum(), answer.sum()

    def step(self, ids: torch.Tensor, prompt: torch.Tensor):
        self.schedule()
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=ids.device)
        tokens = torch.zeros((), device=ids.device)
        for part, cut in zip(ids.unbind(0), prompt.unbind(0)):
            loss, count = self.micro_loss(part, cut)
            loss.backward()
            total += loss.detach()
            tokens += count
        grads = [p.grad for p in self.model.parameters()]
        torch._foreach_div_(grads, tokens)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip, foreach=True)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.averaged, list(self.model.parameters()), 1.0 - self.cfg.average)
        return total / tokens, norm


def build(device):
    cfg = TuneConfig()
    torch.manual_seed(3)
    tuner = Tuner(cfg, device)
    ids = torch.randint(0, cfg.vocab, (cfg.micro, cfg.rows, cfg.length), device=device)
    prompt = torch.randint(2, cfg.length // 2, (cfg.micro, cfg.rows), device=device)
    return tuner.step, (ids, prompt)
