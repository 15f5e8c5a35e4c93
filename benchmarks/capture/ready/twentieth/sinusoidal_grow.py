"""fairseq's SinusoidalPositionalEmbedding: the table is recomputed when a longer sequence arrives (an eager prefill does)."""
import math

import torch
import torch.nn as nn

import graphsafe


class SinusoidalPositionalEmbedding(nn.Module):
    def __init__(self, dim, init_size=32):
        super().__init__()
        self.dim = dim
        self.register_buffer("weights", self.get_embedding(init_size, dim), persistent=False)

    @staticmethod
    def get_embedding(n, dim):
        half = dim // 2
        freq = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        emb = torch.arange(n, dtype=torch.float)[:, None] * freq[None]
        return torch.cat([emb.sin(), emb.cos()], 1)

    def forward(self, pos, max_pos):
        if max_pos > self.weights.size(0):
            self.weights = self.get_embedding(max_pos, self.dim).to(self.weights.device)
        return self.weights.index_select(0, pos.view(-1)).view(*pos.shape, self.dim)


class Decoder(nn.Module):
    def __init__(self, vocab=40, d=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = SinusoidalPositionalEmbedding(d)
        self.ffn = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, ids, pos, max_pos):
        x = self.emb(ids) * 4.0 + self.pos(pos, max_pos)
        x = x + self.ffn(x)
        return x @ self.emb.weight.T


def build(device, batch=4):
    dec = Decoder().to(device).eval().requires_grad_(False)
    ids = torch.zeros(batch, dtype=torch.long, device=device)
    pos = torch.zeros(batch, dtype=torch.long, device=device)

    def decode(ids, pos):
        return dec(ids, pos, 32)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 40, (batch,)))
        args[1].copy_(torch.randint(0, 32, (batch,)))
        if k == 5:  # one long prompt is prefilled eagerly
            dec(torch.randint(0, 40, (80,), device=device), torch.arange(80, device=device), 80)

    return graphsafe.Step(decode, (ids, pos), refresh=refresh)
