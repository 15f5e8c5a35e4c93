"""Ring-buffer KV cache with attention sinks; write positions are device tensors."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class Config:
    batch: int = 3
    dim: int = 24
    heads: int = 4
    sinks: int = 2
    window: int = 10
    vocab: int = 30

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


class RingCache:
    def __init__(self, cfg: Config, device):
        size = cfg.sinks + cfg.window
        self.cfg = cfg
        self.keys = torch.zeros(cfg.batch, cfg.heads, size, cfg.head_dim, device=device)
        self.values = torch.zeros_like(self.keys)
        self.count = torch.zeros(cfg.batch, dtype=torch.long, device=device)
        self.lane = torch.arange(cfg.batch, device=device)
        self.places = torch.arange(size, device=device)

    def write(self, k, v):
        c = self.cfg
        ring = c.sinks + (self.count - c.sinks) % c.window
        place = torch.where(self.count < c.sinks, self.count, ring)
        self.keys[self.lane, :, place] = k
        self.values[self.lane, :, place] = v
        self.count += 1

    def mask(self):
        return (self.places < self.count[:, None])[:, None, None]


class Decoder:
    def __init__(self, cfg: Config, device):
        gen = torch.Generator().manual_seed(2)

        def weight(*shape):
            return (torch.randn(*shape, generator=gen) / shape[-1] ** 0.5).to(device)

        self.cfg = cfg
        self.embed, self.wq = weight(cfg.vocab, cfg.dim), weight(cfg.dim, cfg.dim)
        self.wkv, self.wo = weight(2 * cfg.dim, cfg.dim), weight(cfg.dim, cfg.dim)
        self.cache = RingCache(cfg, device)
        self.history = torch.zeros(cfg.batch, 8, dtype=torch.long, device=device)
        self.trace = []
        self.debug = False

    def split(self, x):
        return x.view(x.shape[0], self.cfg.heads, self.cfg.head_dim)

    @torch.inference_mode()
    def step(self, token, active):
        x = F.embedding(token, self.embed)
        k, v = F.linear(x, self.wkv).chunk(2, dim=-1)
        self.cache.write(self.split(k), self.split(v))
        q = self.split(F.linear(x, self.wq))[:, :, None]
        att = F.scaled_dot_product_attention(q, self.cache.keys, self.cache.values, attn_mask=self.cache.mask())
        x = x + F.linear(att.flatten(1), self.wo)
        logits = x @ self.embed.T
        logits = logits.scatter_add(1, self.history, torch.full_like(self.history, -1, dtype=logits.dtype))
        picked = torch.where(active, logits.argmax(-1), token)
        self.history.copy_(torch.cat((self.history[:, 1:], picked[:, None]), dim=1))
        if self.debug:
            self.trace.append(picked.tolist())
        return picked, logits


def build(device):
    cfg = Config()
    decoder = Decoder(cfg, device)
    token = torch.tensor([3, 11, 29], device=device)
    active = torch.tensor([True, False, True], device=device)
    return decoder.step, (token, active)
