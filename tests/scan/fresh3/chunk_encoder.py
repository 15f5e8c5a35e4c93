"""Streaming encoder with ring buffers of fixed size."""
import logging

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger(__name__)


class FrontEnd(nn.Module):
    def __init__(self, mels, dim, context=3):
        super().__init__()
        self.conv = nn.Conv1d(mels, dim, context)
        self.register_buffer("tail", torch.zeros(1, mels, context - 1))

    def forward(self, chunk):
        x = torch.cat([self.tail, chunk], dim=-1)
        self.tail.copy_(x[..., -self.tail.shape[-1]:])
        return F.gelu(self.conv(x)).transpose(1, 2)


class RingContext(nn.Module):
    def __init__(self, dim, chunk, heads=2, left=16):
        super().__init__()
        self.heads = heads
        self.left = left
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("keys", torch.zeros(1, left, dim))
        self.register_buffer("values", torch.zeros(1, left, dim))
        self.register_buffer("slot", torch.arange(chunk))
        self.register_buffer("seen", torch.zeros(left, dtype=torch.bool))

    def reset(self):
        self.keys.zero_()
        self.values.zero_()
        self.seen.zero_()

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(1, self.slot, k)
        self.values.index_copy_(1, self.slot, v)
        self.seen.index_fill_(0, self.slot, True)
        self.slot.add_(x.shape[1]).remainder_(self.left)
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(q), split(self.keys), split(self.values), attn_mask=self.seen.unsqueeze(0))
        return x + self.proj(y.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, mels=8, dim=16, chunk=4):
        super().__init__()
        self.front = FrontEnd(mels, dim)
        self.attention = RingContext(dim, chunk)
        self.table = nn.Embedding(64, dim)
        self.register_buffer("frame", torch.arange(chunk))

    def forward(self, chunk):
        x = self.front(chunk) + self.table(self.frame)
        self.frame.add_(chunk.shape[-1]).remainder_(64)
        if self.training:
            x = F.dropout(x, 0.1)
        log.debug("chunk of %d frames on %s", chunk.shape[-1], chunk.device)
        return self.attention(x)


class Session:
    def __init__(self, encoder, vocab, device):
        self.encoder = encoder
        self.ctc = nn.Linear(16, vocab).to(device).requires_grad_(False)
        self.level = torch.zeros((), device=device)
        self.pushed = 0

    def push(self, chunk):
        scores = self.ctc(self.encoder(chunk)).log_softmax(-1)
        self.level.lerp_(chunk.abs().mean(), 0.1)
        return scores.argmax(-1)

    def close(self):
        log.info("session ends at level %.3f", self.level.item())
        self.encoder.attention.reset()


def transcribe(session, chunks):
    pieces = [session.push(chunk) for chunk in chunks]
    tokens = torch.cat(pieces, 1).flatten().tolist()
    session.close()
    return [token for token in tokens if token]


def build(device):
    encoder = Encoder().to(device).eval().requires_grad_(False)
    return Session(encoder, 12, device).push, (torch.randn(1, 8, 4, device=device),)
