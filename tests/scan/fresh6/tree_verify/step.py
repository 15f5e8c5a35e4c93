"""Scores a token tree with tree attention and keeps the longest agreeing path."""
import torch
import torch.nn.functional as F
from torch import nn

from .topology import MEDUSA, Topology


class TreeAttention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.proj(y.transpose(1, 2).flatten(2))


class TreeVerifier(nn.Module):
    def __init__(self, topology: Topology, vocab: int = 257, width: int = 64, layers: int = 2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(TreeAttention(width, 4) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)
        paths, lengths = topology.paths(), topology.lengths()
        steps = torch.arange(1, paths.shape[1])
        self.register_buffer("mask", topology.mask(), persistent=False)
        self.register_buffer("paths", paths, persistent=False)
        self.register_buffer("real", steps < lengths.unsqueeze(1), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.mask)
        wanted = self.head(x).argmax(-1)
        on_path = tokens[:, self.paths]
        said = wanted[:, self.paths]
        agrees = (on_path[:, :, 1:] == said[:, :, :-1]) & self.real
        kept = agrees.long().cumprod(-1).sum(-1)
        best = kept.argmax(-1, keepdim=True)
        length = kept.gather(1, best)
        route = on_path.gather(1, best.unsqueeze(-1).expand(-1, -1, on_path.shape[-1])).squeeze(1)
        node = self.paths[best.squeeze(1)].gather(1, length)
        return route, length.squeeze(1), wanted.gather(1, node).squeeze(1)


def build(device):
    torch.manual_seed(3)
    model = TreeVerifier(MEDUSA).to(device).eval().requires_grad_(False)
    tokens = torch.randint(0, 257, (2, MEDUSA.size), device=device)
    return model, (tokens,)
