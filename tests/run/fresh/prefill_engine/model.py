import torch
import torch.nn.functional as F
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab=200, width=32, heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab)
        self.heads, self.dim = heads, width // heads

    def project(self, ids):
        h = self.emb(ids)
        q, k, v = self.qkv(h).view(*ids.shape, 3, self.heads, self.dim).permute(2, 0, 3, 1, 4)
        return h, q, k, v

    def finish(self, h, y):
        return self.head(h + self.out(y.transpose(1, 2).flatten(2)))

    def prompt(self, ids):
        h, q, k, v = self.project(ids)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.finish(h, y), k, v

    def token(self, ids, cache):
        h, q, k, v = self.project(ids)
        cache.put_token(k, v)
        y = F.scaled_dot_product_attention(q, cache.k, cache.v, attn_mask=cache.mask())
        return self.finish(h, y)
