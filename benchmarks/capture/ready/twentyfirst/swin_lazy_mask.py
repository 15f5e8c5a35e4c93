"""Shifted-window attention; masks and relative indices are built on first use and cached by shape."""
import torch
import torch.nn as nn

import graphsafe


def windows(x, w):
    b, h, ww, c = x.shape
    x = x.view(b, h // w, w, ww // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def unwindows(x, w, h, ww):
    b = x.shape[0] // ((h // w) * (ww // w))
    x = x.view(b, h // w, ww // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, ww, -1)


class MaskCache:
    def __init__(self):
        self.masks, self.indices = {}, {}

    def mask(self, h, w, win, shift, device):
        key = (h, w, win, shift, str(device))
        if key not in self.masks:
            img = torch.zeros(1, h, w, 1, device=device)
            spans = (slice(0, -win), slice(-win, -shift), slice(-shift, None))
            count = 0
            for a in spans:
                for b in spans:
                    img[:, a, b, :] = count
                    count += 1
            m = windows(img, win).squeeze(-1)
            diff = m.unsqueeze(1) - m.unsqueeze(2)
            self.masks[key] = torch.zeros_like(diff).masked_fill(diff != 0, -100.0)
        return self.masks[key]

    def index(self, win, device):
        key = (win, str(device))
        if key not in self.indices:
            grid = torch.arange(win, device=device)
            coords = torch.stack(torch.meshgrid(grid, grid, indexing="ij")).flatten(1)
            rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0) + win - 1
            self.indices[key] = (rel[..., 0] * (2 * win - 1) + rel[..., 1]).flatten()
        return self.indices[key]


CACHE = MaskCache()


class SwinBlock(nn.Module):
    def __init__(self, dim=16, heads=2, win=4, shift=2):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * win - 1) ** 2, heads) * 0.02)

    def forward(self, x):
        b, h, w, c = x.shape
        y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        y = windows(y, self.win)
        n = self.win**2
        q, k, v = self.qkv(y).view(-1, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.table[CACHE.index(self.win, x.device)].view(n, n, -1).permute(2, 0, 1)
        mask = CACHE.mask(h, w, self.win, self.shift, x.device)
        attn = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5 + bias
        attn = attn.view(b, -1, self.heads, n, n) + mask[None, :, None]
        attn = attn.view(-1, self.heads, n, n).softmax(-1)
        y = self.proj((attn @ v).transpose(1, 2).reshape(-1, n, c))
        return x + torch.roll(unwindows(y, self.win, h, w), (self.shift, self.shift), (1, 2))


def build(device, batch=2):
    torch.manual_seed(15)
    model = nn.Sequential(SwinBlock(), SwinBlock()).to(device).eval().requires_grad_(False)
    return model, (torch.randn(batch, 8, 8, 16, device=device),)
