import torch
import torch.nn as nn


class KVCache:
    def __init__(self, batch: int, length: int, dim: int, device: torch.device):
        self.k = torch.zeros(batch, length, dim, device=device)
        self.v = torch.zeros(batch, length, dim, device=device)
        self.rows = torch.arange(batch, device=device)
        self.ticks = torch.arange(length, device=device)

    def write(self, pos, k, v):
        self.k.index_put_((self.rows, pos), k)
        self.v.index_put_((self.rows, pos), v)

    def clear(self):
        self.k.zero_()
        self.v.zero_()


class Decoder(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.head = nn.Linear(dim, vocab)
        self.scale = dim**-0.5

    def forward(self, tokens, pos, cache: KVCache):
        x = self.embed(tokens)
        q, k, v = self.qkv(x).chunk(3, -1)
        cache.write(pos, k, v)
        score = torch.einsum("bd,bld->bl", q, cache.k) * self.scale
        hidden = cache.ticks.unsqueeze(0) > pos.unsqueeze(1)
        weight = score.masked_fill(hidden, float("-inf")).softmax(-1)
        return self.head(x + torch.einsum("bl,bld->bd", weight, cache.v))
