"""A sliding-window mask cached by sequence length; the window is changed per layer group by the loop."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class MaskCache:
    def __init__(self):
        self.masks = {}

    def get(self, length, window, device):
        key = (length, device)
        if key not in self.masks:
            i = torch.arange(length, device=device)
            dist = i[:, None] - i[None]
            self.masks[key] = (dist >= 0) & (dist < window)
        return self.masks[key]

    def clear(self):
        self.masks.clear()


class Attention(nn.Module):
    def __init__(self, d=16, h=2, window=4):
        super().__init__()
        self.h, self.window, self.cache = h, window, MaskCache()
        self.qkv = nn.Linear(d, 3 * d)

    def set_window(self, window):
        self.window = window
        self.cache.clear()

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        mask = self.cache.get(t, self.window, x.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


def build(device, batch=2, t=12):
    attn = Attention().to(device).eval().requires_grad_(False)
    x = torch.randn(batch, t, 16, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, t, 16))
        if k % 8 == 7:  # curriculum: the window grows
            attn.set_window(min(t, attn.window + 1))

    return graphsafe.Step(attn, (x,), refresh=refresh)
