"""Prefill of a small vision-language model: image features take the place of marker tokens."""
import logging

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("vlm")

IMAGE = 7


def rope_table(length: int, dim: int) -> torch.Tensor:
    rates = 1.0 / 10000 ** (torch.arange(0, dim, 2) / dim)
    return torch.outer(torch.arange(length), rates)


class Projector(nn.Module):
    def __init__(self, vision: int, width: int):
        super().__init__()
        self.up = nn.Linear(vision, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, patches):
        return self.down(F.gelu(self.up(patches)))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    @staticmethod
    def rotate(x, angle):
        a, b = x.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)

    def forward(self, x, angle, mask):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = self.rotate(q, angle), self.rotate(k, angle)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.proj(y.transpose(1, 2).flatten(2))


class VisionLanguage(nn.Module):
    def __init__(self, vocab=500, width=64, vision=48, heads=4, length=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.projector = Projector(vision, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(2))
        self.head = nn.Linear(width, vocab)
        self.angles = rope_table(length, width // heads)

    def merge(self, ids, patches):
        x = self.embed(ids)
        x[ids == IMAGE] = self.projector(patches).flatten(0, 1)
        return x

    def padding(self, ids, lens):
        slots = torch.arange(lens.max(), device=ids.device)
        pad = F.pad(slots, (0, ids.shape[1] - slots.shape[0]), value=ids.shape[1])
        return (pad < lens[:, None])[:, None, None, :]

    def forward(self, ids, patches, lens):
        lens = lens.clamp(1, ids.shape[1])
        x = self.merge(ids, patches)
        angle = self.angles[: ids.shape[1]].to(x.device)
        mask = self.padding(ids, lens)
        for layer in self.layers:
            x = layer(x, angle, mask)
        log.debug("prefilled %s", f"{lens.float().mean():.1f}")
        last = (lens - 1)[:, None, None].expand(-1, 1, x.shape[-1])
        return self.head(x.gather(1, last).squeeze(1))


def build(device):
    torch.manual_seed(0)
    model = VisionLanguage().to(device).eval().requires_grad_(False)
    ids = torch.randint(10, 500, (2, 24), device=device)
    ids[:, 2:10] = IMAGE
    patches = torch.randn(2, 8, 48, device=device)
    lens = torch.tensor([24, 20], device=device)
    return model, (ids, patches, lens)
