import torch
import torch.nn.functional as F
from torch import nn


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(emb, ch)

    def forward(self, x, e):
        h = self.conv(F.silu(self.norm(x)))
        return x + h + self.emb(e)[:, :, None, None]


class MiniUNet(nn.Module):
    def __init__(self, ch=16, emb=32):
        super().__init__()
        self.inp = nn.Conv2d(4, ch, 3, padding=1)
        self.mid = nn.ModuleList(ResBlock(ch, emb) for _ in range(2))
        self.out = nn.Conv2d(ch, 4, 3, padding=1)
        self.register_buffer("freqs", torch.exp(torch.linspace(0, -6, emb // 2)))

    def forward(self, x, t):
        arg = t.reshape(-1, 1) * self.freqs
        e = torch.cat([arg.sin(), arg.cos()], -1).expand(x.shape[0], -1)
        h = self.inp(x)
        for block in self.mid:
            h = block(h, e)
        return self.out(h)
