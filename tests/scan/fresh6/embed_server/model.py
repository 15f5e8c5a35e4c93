import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab=30522, width=384, layers=6, heads=6, length=256):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Parameter(torch.zeros(length, width))
        self.norm = nn.LayerNorm(width)
        self.attn = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers)
        )
        self.heads = heads

    def forward(self, ids, mask):
        x = self.norm(self.tokens(ids) + self.positions[: ids.shape[1]])
        bias = mask[:, None, None, :]
        for attn, mlp in zip(self.attn, self.mlp):
            q, k, v = attn(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)
            x = x + mlp(x)
        weights = mask.unsqueeze(-1).to(x.dtype)
        pooled = (x * weights).sum(1) / weights.sum(1)
        return F.normalize(pooled, dim=-1)
